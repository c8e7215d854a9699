"""Components that do in each hook what the task says; an installed package as any third party's."""
