"""The page of a folder with several runs: each run's number beside the others."""

from __future__ import annotations

import os
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from ...contracts.errors import UsageError
from ...contracts.metrics import MetricSeries
from ..metrics.headline import format_interval, format_value
from ..store import open_store
from .blocks import section, table
from .charts import Scale, interval_bar, shown
from .facts import PageFacts, read_facts
from .markup import Child, Html, element, file_link, join
from .numbers import count, duration, money
from .page import page_end, page_start
from .report_file import REPORT_NAME, check_target, new_file
from .run_page import is_run

MAX_DEPTH = 4
"""Levels below the folder: ``<run_name>/<label>/<run_id>`` and one more."""
MAX_RUNS = 1000


@dataclass(frozen=True)
class _Run:
    name: str
    facts: PageFacts

    @property
    def series(self) -> MetricSeries | None:
        return self.facts.report.headline() if self.facts.report else None


def find_runs(folder: Path) -> list[Path]:
    """The run directories in ``folder``, by path, at most :data:`MAX_RUNS`; links are not followed."""
    found: list[Path] = []
    levels: list[tuple[Path, int]] = [(folder, 0)]
    while levels and len(found) < MAX_RUNS:
        directory, depth = levels.pop()
        if depth and is_run(directory):
            found.append(directory)
        elif depth < MAX_DEPTH:
            levels += [(path, depth + 1) for path in _folders(directory)]
    return sorted(found)


def _folders(directory: Path) -> list[Path]:
    try:
        with os.scandir(directory) as entries:
            names = [
                entry.name
                for entry in entries
                if entry.is_dir(follow_symlinks=False) and not entry.name.startswith(".")
            ]
    except OSError:
        return []  # may not be read: then it shows no runs
    return [directory / name for name in sorted(names, reverse=True)]


def write_overview(folder: Path, runs: list[Path], output: Path | None = None) -> Path:
    """Write the comparison of ``runs`` of ``folder``, by default into it; returns its path.

    Raises ``UsageError`` when there is no run, or ``output`` is something else than an earlier report.
    """
    if not runs:
        raise UsageError(f"{folder} is not a run directory, and there is none in it")
    root = folder.resolve()
    target = output.absolute() if output else root / REPORT_NAME
    check_target(target)
    found = [
        _Run(os.path.relpath(path.resolve(), root), read_facts(open_store(path.resolve()))) for path in runs
    ]
    title = f"{len(found)} runs in {root.name}"
    top = element("div", element("h1", title), _toggle(), class_="title")
    body = element("main", element("header", top), _by_benchmark(found, target.parent), class_="wide")
    with new_file(target) as file:
        file.write(join(page_start(title), body, page_end()).encode("utf-8", "replace"))
    return target


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
    name: Child = file_link(os.path.relpath(page, base), run.name) if page.is_file() else run.name
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
