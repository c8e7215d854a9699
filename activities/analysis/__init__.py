"""Analysis of scored attempts: which analyzers, what they find, and the totals over a run."""

from .attempts import Analysis, analyze_record
from .markdown import render_analysis
from .selection import select_analyzers
from .summary import AnalysisMeter
from .tasks import analyze_tasks

__all__ = [
    "Analysis",
    "AnalysisMeter",
    "analyze_record",
    "analyze_tasks",
    "render_analysis",
    "select_analyzers",
]
