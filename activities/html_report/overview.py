"""The page of a folder with several runs: each run's number beside the others."""

from __future__ import annotations

import os
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from ...contracts.errors import UsageError
from ...contracts.launch import LaunchSummary
from ...contracts.metrics import MetricSeries
from ..metrics.headline import format_interval, format_value
from ..store import open_store
from .blocks import section, table
from .charts import Scale, interval_bar, shown
from .facts import PageFacts, read_facts
from .folders import is_run, launch_of, results_of
from .markup import Child, Html, element, file_link, join
from .numbers import count, duration, money
from .page import page_end, page_start
from .report_file import REPORT_NAME, check_target, new_file


@dataclass(frozen=True)
class _Run:
    name: str
    facts: PageFacts

    @property
    def series(self) -> MetricSeries | None:
        return self.facts.report.headline() if self.facts.report else None


def write_overview(folder: Path, runs: list[Path], output: Path | None = None) -> Path:
    """Write the comparison of ``runs`` of ``folder``, by default into it; returns its path.

    Raises ``UsageError`` when there is no run, or ``output`` is something else than an earlier report.
    """
    launch = launch_of(folder)
    if not runs and launch is None:
        raise UsageError(f"{folder} is not a run directory, and there is none in it")
    root = folder.resolve()
    target = output.absolute() if output else root / REPORT_NAME
    check_target(target)
    base = results_of(folder) if launch else root
    found = [
        _Run(os.path.relpath(path.resolve(), base), read_facts(open_store(path.resolve()))) for path in runs
    ]
    title = f"{len(found)} {'run' if len(found) == 1 else 'runs'} in {root.name}"
    if launch is not None:
        title = f"Launch {launch.name or launch.launch_id}: {launch.status}"
    top = element("div", element("h1", title), _toggle(), class_="title")
    body = element(
        "main",
        element("header", top, _without_run(launch, folder)),
        _by_benchmark(found, target.parent),
        class_="wide",
    )
    with new_file(target) as file:
        file.write(join(page_start(title), body, page_end()).encode("utf-8", "replace"))
    return target


def _without_run(launch: LaunchSummary | None, folder: Path) -> list[Html]:
    """Requests of a launch that never got a run directory, or whose is gone, and why."""
    if launch is None:
        return []
    texts = [
        f"{request.name}: {request.status}, {'its run is no longer there' if request.run_dir else request.error}"
        for request in launch.requests
        if not request.run_dir or not is_run(results_of(folder) / request.run_dir)
    ]
    return [element("p", text, class_="notice bad") for text in [*texts, launch.error] if text]


def _toggle() -> Html:
    return element("button", "Light / dark", id="theme", type="button", class_="quiet")


def _by_benchmark(runs: list[_Run], base: Path) -> list[Html]:
    """Only runs of one benchmark and one number can be compared; each such group is a table."""
    groups: defaultdict[tuple[str, str], list[_Run]] = defaultdict(list)
    for run in runs:
        groups[
            run.facts.benchmark or "unknown benchmark", run.series.id if run.series else "no number"
        ].append(run)
    return [
        section(f"{benchmark}: {series}", _table(group, base), name=f"group-{number}")
        for number, ((benchmark, series), group) in enumerate(sorted(groups.items()))
    ]


def _table(runs: list[_Run], base: Path) -> Html:
    found = [run.series for run in runs if run.series]
    scale = Scale.over(found, found[0].kind) if found else Scale(0.0, 1.0)
    head = (
        "Run",
        "Model",
        "Harness",
        "Environment",
        "Status",
        "Value",
        "",
        "95 % interval",
        "Evaluated",
        "Errors",
        "Tokens",
        "Cost",
        "Took",
    )
    return table(head, [_row(run, scale, base) for run in sorted(runs, key=_rank)], numeric_from=7)


def _rank(run: _Run) -> tuple[float, str]:
    """The best first; without a number last."""
    value = shown(run.series)[0] if run.series else None
    return (float("inf") if value is None else -value, run.name)


def _row(run: _Run, scale: Scale, base: Path) -> tuple[Child, ...]:
    facts, series = run.facts, run.series
    report = facts.report
    page = facts.run_dir / REPORT_NAME
    name: Child = (
        file_link(os.path.relpath(page, base), run.name) if page.is_file() else element("span", run.name)
    )
    usage = report.usage if report else None
    tokens = usage.prompt_tokens.total + usage.completion_tokens.total if usage and usage.calls else None
    _, interval = shown(series) if series else (None, None)
    return (
        name,
        facts.component("model"),
        facts.component("harness"),
        facts.component("environment"),
        join(facts.status, [element("div", text, class_="dim") for text in facts.notices]),
        element("span", format_value(series) if series else "-"),
        interval_bar(series, scale) if series else "",
        format_interval(interval),
        f"{report.counts.evaluated}/{report.counts.total}" if report else "",
        str(report.counts.error) if report else "",
        count(tokens) if tokens is not None else "",
        money(usage.cost_usd.total) if usage and usage.cost_usd.calls else "",
        duration(facts.duration_seconds),
    )
