"""The single-turn categories of the Berkeley Function Calling Leaderboard."""

from .benchmark import Bfcl, BfclParams

__all__ = ["Bfcl", "BfclParams"]
