"""Reading what command-line agents write about their work, one module a format.

Everything here is the agent's: read as anything hostile, with what cannot be understood left out.
"""

from .calls import with_calls
from .formats import ParsedTrajectory, UnreadableTrajectory, parse_trajectory

__all__ = ["ParsedTrajectory", "UnreadableTrajectory", "parse_trajectory", "with_calls"]
