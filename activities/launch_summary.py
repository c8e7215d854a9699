"""``launch_summary.json`` and ``launch_summary.md``: what became of all requests of a launch file."""

from __future__ import annotations

import asyncio
from pathlib import Path

from temporalio import activity

from ..contracts.activities import SAVE_LAUNCH_SUMMARY, LaunchSummaryInput, SavedLaunchSummary
from ..contracts.launch import LaunchSummary, SummarizedRequest
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
        path = await asyncio.to_thread(write_launch_summary, input, writer)
        return SavedLaunchSummary(path=str(path))


def write_launch_summary(input: LaunchSummaryInput, writer: MaskingWriter) -> Path:
    """Write the files and return their folder."""
    results_dir, result = Path(input.results_dir).absolute(), input.result
    folder = results_dir / LAUNCHES_FOLDER / safe_component(result.launch_id)
    folder.mkdir(parents=True, exist_ok=True)
    summary = LaunchSummary(
        launch_id=result.launch_id,
        name=input.name,
        status=result.status,
        started_at=input.started_at,
        finished_at=input.finished_at,
        requests=[
            SummarizedRequest(
                name=request.key,
                **{**request.model_dump(exclude={"key"}), "run_dir": _relative(request.run_dir, results_dir)},
            )
            for request in result.requests
        ],
        error=result.error,
        exit_code=result.exit_code,
    )
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


def _row(request: SummarizedRequest) -> list[str]:
    return [
        markdown(request.name),
        request.status,
        markdown(request.primary),
        _value(request),
        f"{request.evaluated_tasks}/{request.total_tasks}",
        str(request.invalidated_tasks),
        str(request.error_tasks),
        markdown(request.run_dir),
    ]


def _value(request: SummarizedRequest) -> str:
    if request.value is not None:
        return f"{request.value:.4f}"
    return "" if request.reference_value is None else f"({request.reference_value:.4f})"
