"""Environments that exist, whose they are, and the removal of those that nobody needs any more."""

from .finding import Found, Sighting, find_environments
from .ownership import EnvironmentState, Owners
from .reaper import Reaper, ReaperLoop
from .release import release

__all__ = [
    "EnvironmentState",
    "Found",
    "Owners",
    "Reaper",
    "ReaperLoop",
    "Sighting",
    "find_environments",
    "release",
]
