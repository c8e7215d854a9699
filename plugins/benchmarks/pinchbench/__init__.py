"""Tasks in PinchBench's format."""

from .benchmark import PinchBench, PinchBenchParams

__all__ = ["PinchBench", "PinchBenchParams"]
