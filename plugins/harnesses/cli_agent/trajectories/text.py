"""Agents without a trajectory: what they print is their answer."""

from __future__ import annotations

from .....contracts.result import TrajectoryStep
from .parsed import ParsedTrajectory


def read_text(data: bytes) -> ParsedTrajectory:
    """One step with everything that was printed."""
    text = data.decode("utf-8", errors="replace").strip()
    steps = [TrajectoryStep(step_id=1, source="agent", message=text)] if text else []
    return ParsedTrajectory(steps=steps, answer=text or None)
