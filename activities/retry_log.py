"""Says in the logs that an activity fails and is tried again, which Temporal itself does in silence.

A full disk or a directory that cannot be written stops a run without any other sign: local
activities are retried inside the worker, where no server and no query sees them.
"""

from __future__ import annotations

import logging
import time

from temporalio import activity

from .classification import describe

RETRY_MARK = "is tried again"
"""Stands in every line, so that ``agentcompass status`` finds it in the worker's log."""
INTERVAL_SECONDS = 60.0

_log = logging.getLogger(__name__)
_last: dict[tuple[str, str], float] = {}


def log_retry(error: BaseException, run_dir: str | None) -> None:
    """Log a failure that Temporal answers with another try: the first of its kind, then one a minute."""
    if not activity.in_activity():
        return
    info = activity.info()
    key = info.activity_type, f"{type(error).__name__} {getattr(error, 'errno', '')}"
    now = time.monotonic()
    if now - _last.get(key, float("-inf")) < INTERVAL_SECONDS:
        return
    _last[key] = now
    _log.warning(
        "activity %s %s (try %d of %s): %s",
        info.activity_type,
        RETRY_MARK,
        info.attempt,
        info.workflow_id,
        describe(error),
        extra={"run_dir": run_dir} if run_dir else None,
    )
