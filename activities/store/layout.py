"""Names: what a task's files are called, and where a run directory goes.

Every name made here is one path component of at most 255 bytes, ASCII only (so that no file
system folds or normalises two of them into one), and never hidden.
"""

from __future__ import annotations

import hashlib
import re
from datetime import datetime, timedelta
from pathlib import Path

from ...contracts.errors import UsageError

_UNSAFE = re.compile(r"[^A-Za-z0-9._=-]+")
_PLAIN_STEM = re.compile(r"^[a-z0-9](?:[a-z0-9._=-]*[a-z0-9_=-])?$")
_LOOKS_SUFFIXED = re.compile(r"-[0-9a-f]{12}$")
_RESERVED = re.compile(r"^(con|prn|aux|nul|com[0-9]|lpt[0-9])(\.|$)", re.IGNORECASE)
_STEM_CHARS = 100
_COMPONENT_CHARS = 200

RUN_ID_FORMAT = "%Y%m%d_%H%M%S"
"""The default run id: local time, to the second."""


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def task_file_stem(task_id: str) -> str:
    """The file name, without extension, of everything that belongs to a task.

    A plain lower-case id is its own name. Any other id is made safe and gets 12 hex digits of
    its sha256, so that no two ids share a name, not even where case is ignored.
    """
    plain = _PLAIN_STEM.match(task_id) and len(task_id) <= _STEM_CHARS
    if plain and not _LOOKS_SUFFIXED.search(task_id) and not _RESERVED.match(task_id):
        return task_id
    readable = _UNSAFE.sub("_", task_id).strip("._-")[:_STEM_CHARS].strip("._-")
    if _RESERVED.match(readable):
        readable = f"task_{readable}"
    return f"{readable or 'task'}-{_digest(task_id)}"


def safe_component(text: str) -> str:
    """``text`` as one path component: unsafe characters become ``_``.

    Raises UsageError for what would name no directory, or the one above.
    """
    safe = _UNSAFE.sub("_", text)
    if not text.strip() or safe.strip(".") == "":
        raise UsageError(f"{text!r} cannot be the name of a directory")
    if safe.startswith("."):
        safe = f"_{safe[1:]}"  # hidden directories are the program's own
    if len(safe) > _COMPONENT_CHARS:
        safe = f"{safe[:_COMPONENT_CHARS]}-{_digest(text)}"
    return safe


def request_label(model: str, benchmark: str, harness: str, request_name: str = "") -> str:
    """The directory of a request: its name in a launch, else ``<model>_<benchmark>_<harness>``."""
    if request_name:
        return safe_component(request_name)
    return "_".join(safe_component(part) for part in (model, benchmark, harness))


def runs_dir(results_dir: str | Path, run_name: str, label: str) -> Path:
    """The directory that holds the runs of one request: ``<results_dir>/[<run_name>/]<label>``.

    ``run_name`` may have several levels. Raises UsageError where it would leave ``results_dir``.
    """
    path = Path(results_dir)
    if run_name:
        levels = re.split(r"[/\\]", run_name)
        if Path(run_name).is_absolute() or ".." in levels or re.match(r"^[A-Za-z]:", run_name):
            raise UsageError(f"the run name {run_name!r} would leave the results directory")
        for level in levels:
            if level not in ("", "."):
                path /= safe_component(level)
    return path / safe_component(label)


def run_path(results_dir: str | Path, run_name: str, label: str, run_id: str) -> Path:
    """``<results_dir>/[<run_name>/]<label>/<run_id>``, with UsageError for what would escape."""
    return runs_dir(results_dir, run_name, label) / safe_component(run_id)


def run_id_at(started_at: datetime, collisions: int = 0) -> str:
    """The default run id of a start time, in local time; each collision adds one second."""
    local = started_at.astimezone() if started_at.tzinfo else started_at
    return (local + timedelta(seconds=collisions)).strftime(RUN_ID_FORMAT)
