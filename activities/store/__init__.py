"""The run store: everything in a run directory is written and read here."""

from .browsing import BrowsedTask
from .events import EventSource
from .execution import ExecutionStore
from .files import read_model, write_json_atomic
from .layout import request_label, run_path, runs_dir, safe_component, task_file_stem
from .legacy import UnclassifiedRecordError, UnclassifiedTask, read_run_info, read_task_for_display
from .progress import ProgressWriter, open_progress
from .progress_log import read_events, read_snapshot, rebuild_snapshot
from .recorded import recorded_params, recorded_request
from .reservation import list_runs
from .run_log import install_run_log, log_held, records_held, run_log_scope
from .run_store import RunStore, open_store
from .state import DriverRecord, RequestState, TaskEntry
from .steps import RecordedStep, StepReader
from .takeover import BorrowedRecord, TakeOver
from .task_records import (
    AttemptAnalysis,
    attempt_digest,
    compose,
    decompose,
    is_unscored,
    outcome_of,
    worst_severity,
)
from .tasks import task_digest

__all__ = [
    "AttemptAnalysis",
    "BorrowedRecord",
    "BrowsedTask",
    "DriverRecord",
    "EventSource",
    "ExecutionStore",
    "ProgressWriter",
    "RecordedStep",
    "RequestState",
    "RunStore",
    "StepReader",
    "TakeOver",
    "TaskEntry",
    "UnclassifiedRecordError",
    "UnclassifiedTask",
    "attempt_digest",
    "compose",
    "decompose",
    "install_run_log",
    "is_unscored",
    "list_runs",
    "log_held",
    "open_progress",
    "open_store",
    "outcome_of",
    "read_events",
    "read_model",
    "read_run_info",
    "read_snapshot",
    "read_task_for_display",
    "rebuild_snapshot",
    "recorded_params",
    "recorded_request",
    "records_held",
    "request_label",
    "run_log_scope",
    "run_path",
    "runs_dir",
    "safe_component",
    "task_digest",
    "task_file_stem",
    "worst_severity",
    "write_json_atomic",
]
