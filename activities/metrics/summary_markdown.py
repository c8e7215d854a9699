"""``summary.md``: the report of a run for people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice

from pydantic import Field

from ...contracts.base import Contract
from ...contracts.comparison import Comparison
from ...contracts.metrics import (
    CategoryValue,
    Estimate,
    Exclusion,
    MetricReport,
    MetricState,
    TaskObservations,
    UsageTotals,
)
from .comparison_markdown import comparison_section
from .headline import format_interval, format_number, format_value, headline_parts
from .text import markdown, table

MAX_TASK_ROWS = 50
MAX_CATEGORY_ROWS = 200

_COVERAGE = ("Evaluated", "Unavailable", "Invalidated", "Error", "Attempts valid")


class RunFacts(Contract):
    """What the summary tells of a run beside its numbers; empty texts are left out."""

    run_id: str
    model: str = ""
    harness: str = ""
    environment: str = ""
    status: str = ""
    started_at: str = ""
    finished_at: str = ""
    reused_tasks: int = Field(default=0, ge=0)
    reused_from: str = ""
    other_settings: str = ""
    """Which of the reused results were made with other settings."""
    error: str = ""
    """Why the run ended as it did, when something went wrong."""
    agentcompass_version: str = ""


def render_summary(
    report: MetricReport,
    facts: RunFacts,
    tasks: Iterable[TaskObservations] = (),
    comparison: Comparison | None = None,
) -> str:
    """The text of ``summary.md``.

    ``tasks`` are those of the report; the ones that were evaluated in spite of an ERROR are listed from
    them. ``comparison`` is the one with the run before it. Everything that comes from tasks, plugins or models is shown as literal text.
    """
    sections = [
        [f"# {markdown(report.benchmark.upper())} Evaluation Results"],
        _headline(report),
        _facts(report, facts),
        _metrics(report),
        comparison_section(comparison) if comparison else [],
        _breakdown(report, "category"),
        _breakdown(report, "hierarchy"),
        _problems(report, tasks),
        _usage(report.usage),
        ["Full metric data: [metrics.json](metrics.json)"],
    ]
    return "\n\n".join("\n".join(lines) for lines in sections if lines) + "\n"


def _headline(report: MetricReport) -> list[str]:
    first, *rest = (markdown(part, 1000) for part in headline_parts(report))
    return [" · ".join([f"**{first}**", *rest])]


def _facts(report: MetricReport, facts: RunFacts) -> list[str]:
    plan = report.attempts
    reused = f"{facts.reused_tasks} tasks" if facts.reused_tasks else ""
    if reused and facts.reused_from:
        reused += f" from {facts.reused_from}"
    if facts.other_settings:
        reused = f"{reused}; {facts.other_settings}".removeprefix("; ")
    rows = [
        ("Run", facts.run_id),
        ("Status", facts.status),
        ("Error", facts.error),
        ("Model", facts.model),
        ("Benchmark", report.benchmark),
        ("Harness", facts.harness),
        ("Environment", facts.environment),
        ("Attempts", f"k={plan.k}, strategy {plan.strategy}, aggregation {report.aggregation.mode}"),
        ("Started", facts.started_at),
        ("Finished", facts.finished_at),
        ("Reused", reused),
        ("AgentCompass", facts.agentcompass_version),
    ]
    return table(["Run fact", "Value"], [(name, markdown(value, 500)) for name, value in rows if value])


def _metrics(report: MetricReport) -> list[str]:
    rows = [(markdown(series.id), *_cells(series)) for series in report.series]
    lines = ["## Metrics", "", *table(["Metric", "Value", "95 % interval", *_COVERAGE], rows, numeric_from=1)]
    if report.evaluation_failed:
        lines += [
            "",
            "**Evaluation failed: there is no official score.** Values marked as reference leave out",
        ]
        lines[-1] += " every task with a final FATAL issue."
    return lines


def _breakdown(report: MetricReport, what: str) -> list[str]:
    """The headline series by category, or by node of the category tree."""
    series = report.headline()
    if series is None:
        return []
    values: Mapping[str, CategoryValue] = series.categories if what == "category" else series.hierarchy
    if not values:
        return []
    shown = islice(values.items(), MAX_CATEGORY_ROWS)
    rows = [(markdown(name), *_cells(value)) for name, value in shown]
    head = [what.capitalize(), markdown(series.id), "95 % interval", *_COVERAGE]
    lines = [f"## Details: {what}", "", *table(head, rows, numeric_from=1)]
    if len(values) > MAX_CATEGORY_ROWS:
        lines += ["", f"… and {len(values) - MAX_CATEGORY_ROWS} more in metrics.json"]
    return lines


def _cells(estimate: Estimate) -> tuple[str, ...]:
    """A number and its coverage."""
    counts, attempts = estimate.counts, estimate.attempt_coverage
    return (
        format_value(estimate),
        format_interval(estimate.interval or estimate.reference_interval),
        f"{counts.evaluated}/{counts.total}",
        str(counts.unavailable),
        str(counts.invalidated),
        str(counts.error),
        f"{attempts.valid}/{attempts.expected}",
    )


def _problems(report: MetricReport, tasks: Iterable[TaskObservations]) -> list[str]:
    """First what the headline leaves out, then what it counts in spite of an ERROR, then the other series."""
    excluded = [entry for entry in report.exclusions if report.primary in entry.series]
    others = [entry for entry in report.exclusions if report.primary not in entry.series]
    rows = [
        *(_excluded_row(report, entry) for entry in excluded),
        *_error_rows({entry.task_id for entry in excluded}, tasks),
        *(_excluded_row(report, entry) for entry in others),
    ]
    if not rows:
        return []
    head = ["Task", "Category", "State", "Not counted in", "Reason"]
    lines = ["## Excluded and failed tasks", "", *table(head, rows[:MAX_TASK_ROWS])]
    if len(rows) > MAX_TASK_ROWS:
        lines += ["", f"… and {len(rows) - MAX_TASK_ROWS} more in metrics.json and details/"]
    return lines


def _excluded_row(report: MetricReport, entry: Exclusion) -> tuple[str, ...]:
    everywhere = {series.id for series in report.series} <= set(entry.series)
    state = entry.state.value
    return (
        markdown(entry.task_id),
        markdown(entry.category),
        state.upper() if entry.state is MetricState.INVALIDATED else state,
        "all" if everywhere else markdown(", ".join(entry.series)),
        markdown(entry.reason),
    )


def _error_rows(excluded: set[str], tasks: Iterable[TaskObservations]) -> list[tuple[str, ...]]:
    """Tasks that the headline counts although an attempt ended with an ERROR."""
    rows: list[tuple[str, ...]] = []
    for task in sorted(tasks, key=lambda item: item.task_id):
        issue = next((item.issue for item in task.attempts if item.error and item.issue), None)
        if issue is not None and task.task_id not in excluded:
            reason = f"{issue.code}: {issue.message}"
            rows.append((markdown(task.task_id), markdown(task.category), "evaluated", "-", markdown(reason)))
    return rows


def _usage(usage: UsageTotals | None) -> list[str]:
    """Totals beside the number of model calls that they cover; nothing when no call was recorded."""
    if usage is None or not usage.calls:
        return []
    latency = usage.latency_seconds
    average = latency.total / latency.calls if latency.calls else 0.0
    quantities = [
        ("Prompt tokens", usage.prompt_tokens, str(usage.prompt_tokens.total)),
        ("Completion tokens", usage.completion_tokens, str(usage.completion_tokens.total)),
        ("Cached tokens", usage.cached_tokens, str(usage.cached_tokens.total)),
        ("Reasoning tokens", usage.reasoning_tokens, str(usage.reasoning_tokens.total)),
        ("Cost (USD)", usage.cost_usd, format_number(usage.cost_usd.total)),
        ("Latency, sum (s)", latency, f"{latency.total:.1f}"),
        ("Latency, mean (s)", latency, f"{average:.2f}"),
        ("Latency, longest (s)", latency, f"{usage.max_latency_seconds:.2f}"),
    ]
    rows = [(name, shown, f"{tally.calls}/{usage.calls}") for name, tally, shown in quantities if tally.calls]
    about = f"{usage.calls} model calls in {usage.steps} steps of {usage.attempts} attempts"
    lines = ["## Usage", "", f"{about}; executions discarded by a retry are not included."]
    return (
        [*lines, "", *table(["Quantity", "Total", "Calls that report it"], rows, numeric_from=1)]
        if rows
        else lines
    )
