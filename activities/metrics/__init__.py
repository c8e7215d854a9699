"""Metrics: pure functions from stored records to the report of a run and its summary.

Records become observations, a task's observations one number per series (:mod:`.reducers`), tasks a
report (:mod:`.report`), the report ``summary.md`` and a verdict of the gates. No I/O, no clock; only
:mod:`.comparison`, which is imported by itself, reads: two run directories.
"""

from .aggregation import unplaced_categories
from .damage import UNCLASSIFIED_RECORD, UNREADABLE_RECORD, damaged_records
from .gates import Gate, check_gate_names, check_gates, parse_gate
from .headline import headline
from .observations import check_metrics, observe_attempt, observe_task
from .report import build_report
from .series import SeriesPlan, plan_series, stops_at_success
from .summary_markdown import RunFacts, render_summary
from .usage import UsageMeter, total_usage

__all__ = [
    "UNCLASSIFIED_RECORD",
    "UNREADABLE_RECORD",
    "Gate",
    "RunFacts",
    "SeriesPlan",
    "UsageMeter",
    "build_report",
    "check_gate_names",
    "check_gates",
    "check_metrics",
    "damaged_records",
    "headline",
    "observe_attempt",
    "observe_task",
    "parse_gate",
    "plan_series",
    "render_summary",
    "stops_at_success",
    "total_usage",
    "unplaced_categories",
]
