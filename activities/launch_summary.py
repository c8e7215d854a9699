"""``launch_summary.json`` and ``launch_summary.md``: what became of all requests of a launch file."""

from __future__ import annotations

import asyncio
from pathlib import Path

from temporalio import activity

from ..contracts.activities import SAVE_LAUNCH_SUMMARY, LaunchSummaryInput, SavedLaunchSummary
from ..contracts.launch import LaunchSummary, RequestResult
from .boundary import activity_boundary
from .metrics.text import markdown, table
from .redaction import REDACTOR
from .store.files import write_atomic
from .store.layout import safe_component
from .store.writer import MaskingWriter

LAUNCHES_FOLDER = "launches"
"""Beside the folders of the requests: ``<results_dir>/launches/<launch id>/launch_summary.json``."""

_HEAD = ["request", "status", "metric", "value", "evaluated", "invalidated", "errors", "run"]


class SaveLaunchSummary:
    """A second try writes the same again."""

    @activity.defn(name=SAVE_LAUNCH_SUMMARY.name)
    @activity_boundary
    async def save_launch_summary(self, input: LaunchSummaryInput) -> SavedLaunchSummary:
        """Write both files; runs are named relative to the results directory."""
        writer = MaskingWriter(REDACTOR)
        path = await asyncio.to_thread(write_launch_summary, Path(input.results_dir), input.summary, writer)
        return SavedLaunchSummary(path=str(path))


def write_launch_summary(results_dir: Path, summary: LaunchSummary, writer: MaskingWriter) -> Path:
    """Write the files and return their folder."""
    folder = results_dir.absolute() / LAUNCHES_FOLDER / safe_component(summary.launch_id)
    folder.mkdir(parents=True, exist_ok=True)
    requests = [
        request.model_copy(update={"run_dir": _relative(request.run_dir, results_dir.absolute())})
        for request in summary.requests
    ]
    summary = summary.model_copy(update={"requests": requests})
    writer.write_record(folder / "launch_summary.json", summary, durable=True)
    markdown = writer.redactor.text(render_launch_summary(summary))
    write_atomic(folder / "launch_summary.md", markdown.encode(), durable=True)
    return folder


def _relative(run_dir: str, results_dir: Path) -> str:
    path = Path(run_dir)
    return str(path.relative_to(results_dir)) if run_dir and path.is_relative_to(results_dir) else run_dir


def render_launch_summary(summary: LaunchSummary) -> str:
    """The table of all requests, each number beside its coverage."""
    lines = [
        f"# Launch {markdown(summary.name or summary.launch_id)}: {summary.status}",
        "",
        f"{summary.started_at} to {summary.finished_at}, launch id `{summary.launch_id}`",
        "",
        *table(_HEAD, [_row(request) for request in summary.requests], numeric_from=3),
    ]
    if summary.error:
        lines += ["", markdown(summary.error, 2000)]
    return "\n".join(lines) + "\n"


def _row(request: RequestResult) -> list[str]:
    return [
        markdown(request.key),
        request.status,
        markdown(request.primary),
        _value(request),
        f"{request.evaluated_tasks}/{request.total_tasks}",
        str(request.invalidated_tasks),
        str(request.error_tasks),
        markdown(request.run_dir),
    ]


def _value(request: RequestResult) -> str:
    if request.value is not None:
        return f"{request.value:.4f}"
    return "" if request.reference_value is None else f"({request.reference_value:.4f})"
