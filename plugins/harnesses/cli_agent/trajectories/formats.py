"""The readers by format."""

from __future__ import annotations

from collections.abc import Callable

from ..description import TrajectoryFormat
from .atif import read_atif
from .codex import read_codex
from .mini_swe_agent import read_mini_swe_agent
from .opencode import read_opencode
from .openhands import read_openhands
from .parsed import ParsedTrajectory, UnreadableTrajectory
from .stream_json import read_stream_json
from .text import read_text

__all__ = ["ParsedTrajectory", "UnreadableTrajectory", "parse_trajectory"]

_READERS: dict[TrajectoryFormat, Callable[[bytes], ParsedTrajectory]] = {
    TrajectoryFormat.TEXT: read_text,
    TrajectoryFormat.MINI_SWE_AGENT: read_mini_swe_agent,
    TrajectoryFormat.STREAM_JSON: read_stream_json,
    TrajectoryFormat.CODEX: read_codex,
    TrajectoryFormat.OPENCODE: read_opencode,
    TrajectoryFormat.OPENHANDS: read_openhands,
    TrajectoryFormat.ATIF: read_atif,
}


def parse_trajectory(format: TrajectoryFormat, data: bytes) -> ParsedTrajectory:
    """The trajectory in ``data``, as far as it goes: the agent may still be writing it.

    Raises :class:`UnreadableTrajectory` when nothing in it can be understood.
    """
    return _READERS[format](data)
