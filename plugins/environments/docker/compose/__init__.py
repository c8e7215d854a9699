"""Compose files of tasks: what of them is understood, and what is refused."""

from .document import ComposeError
from .model import Build, Condition, Healthcheck, Mount, Service
from .project import MAIN, ComposeProject, project_of, read_project

__all__ = [
    "MAIN",
    "Build",
    "ComposeError",
    "ComposeProject",
    "Condition",
    "Healthcheck",
    "Mount",
    "Service",
    "project_of",
    "read_project",
]
