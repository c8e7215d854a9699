"""Reuse: another run's finished work, and what of it still counts."""

from .checkpointing import checkpoint_evaluation
from .report import ReuseReport
from .resuming import resumes_evaluation
from .source import ReuseSource, find_source, settled_source
from .taking_over import take_over

__all__ = [
    "ReuseReport",
    "ReuseSource",
    "checkpoint_evaluation",
    "find_source",
    "resumes_evaluation",
    "settled_source",
    "take_over",
]
