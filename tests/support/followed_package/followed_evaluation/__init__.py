"""A benchmark whose agent is a detached process; an installed package as any third party's."""
