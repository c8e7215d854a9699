"""A benchmark whose phases end as a test says; an installed package as any third party's."""
