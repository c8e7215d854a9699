"""The final result for people: the number first, beside what it covers."""

from __future__ import annotations

from pathlib import Path

from ..activities.metrics import headline
from ..activities.store.files import find_model
from ..activities.store.kept import KEPT_FILE, read_kept
from ..contracts.errors import RecordError
from ..contracts.launch import LaunchResult, RequestResult
from ..contracts.metrics import MetricReport


def load_report(result: RequestResult) -> MetricReport | None:
    """``metrics.json`` of a run; ``None`` when it has none, or lies on another machine.

    Raises:
        RecordError: the file is damaged.
    """
    return find_model(Path(result.run_dir) / "metrics.json", MetricReport) if result.run_dir else None


def render_result(result: LaunchResult, ui_address: str | None = None) -> str:
    """Lines for standard output."""
    lines: list[str] = []
    for request in result.requests:
        lines += request_lines(request, many=len(result.requests) > 1)
    if result.error and result.error not in {request.error for request in result.requests}:
        lines.append(f"Error: {result.error}")
    if result.summary_path:
        lines.append(f"Summary: {result.summary_path}/launch_summary.md")
    lines.append(f"Launch: {result.launch_id} ({result.status})")
    if ui_address:
        lines.append(f"Temporal UI: {ui_address}")
    return "\n".join(lines)


def request_lines(request: RequestResult, *, many: bool = False) -> list[str]:
    """The result of one request."""
    lines = [f"{request.key}:"] if many else []
    lines.append(f"Result: {headline_of(request)}")
    lines.append(f"Status: {request.status}{_but(request)}")
    if request.error:
        lines.append(f"Reason: {request.error}")
    if request.comparison:
        lines.append(f"Compared: {request.comparison}")
    if request.run_dir:
        lines.append(f"Run directory: {request.run_dir}")
        lines += kept_lines(Path(request.run_dir))
    return lines


def _but(request: RequestResult) -> str:
    count = request.damaged_records
    if not count:
        return ""
    return f", but not valid: {count} task {'record' if count == 1 else 'records'} cannot be read"


def kept_lines(run_dir: Path) -> list[str]:
    """Where the environments are that ``--keep-environment`` left; nothing when none was kept here."""
    kept = read_kept(run_dir)
    if not kept:
        return []
    handle = kept[0].handle
    place = " ".join(str(value) for value in handle.data.values() if isinstance(value, str)) or handle.id
    return [
        f"Environments kept: {len(kept)}, the first for {kept[0].task_id!r}: {handle.provider} {place}; "
        f"all of them: {run_dir / KEPT_FILE}"
    ]


def headline_of(request: RequestResult) -> str:
    """The headline of the run's report, or what the result alone can tell."""
    try:
        report = load_report(request)
    except RecordError as error:
        return f"{_short(request)} ({error})"
    return headline(report) if report is not None else _short(request)


def _short(request: RequestResult) -> str:
    name = request.primary or "score"
    if request.value is not None:
        number = f"{name} = {request.value:.4f}"
    elif request.reference_value is not None:
        number = f"no official score; reference only: {name} = {request.reference_value:.4f}"
    else:
        number = "no score"
    missing = request.unavailable_tasks + request.invalidated_tasks
    text = f"{number} | {request.evaluated_tasks}/{request.total_tasks} tasks evaluated"
    return f"{text} | {missing} NOT evaluated" if missing else text
