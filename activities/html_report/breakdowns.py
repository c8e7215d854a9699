"""The numbers of a run in detail: every series, the categories, what is not counted."""

from __future__ import annotations

from itertools import islice

from ...contracts.metrics import UNCATEGORIZED, CategoryValue, Estimate, MetricKind, MetricReport
from ..metrics.headline import format_interval, format_value
from .blocks import section, table
from .charts import Scale, axis, interval_bar, shown
from .markup import Child, Html, element
from .numbers import count
from .rows import category_label

MAX_SERIES = 100
MAX_CATEGORIES = 200
MAX_EXCLUSIONS = 100


def metrics(report: MetricReport) -> Html:
    """Every series beside its coverage."""
    rows = []
    for series in report.series[:MAX_SERIES]:
        scale = Scale.over([series], series.kind)
        rows.append((element("span", series.id), *_cells(series, scale)))
    head = (
        "Metric",
        "Value",
        "",
        "95 % interval",
        "Evaluated",
        "Unavailable",
        "Invalidated",
        "Error",
        "Attempts valid",
    )
    return section("Metrics", table(head, rows, numeric_from=3), name="metrics")


def _cells(estimate: Estimate, scale: Scale) -> tuple[Child, ...]:
    covered = estimate.counts
    _, interval = shown(estimate)
    return (
        element("span", format_value(estimate)),
        interval_bar(estimate, scale),
        format_interval(interval),
        f"{covered.evaluated}/{covered.total}",
        str(covered.unavailable),
        str(covered.invalidated),
        str(covered.error),
        f"{estimate.attempt_coverage.valid}/{estimate.attempt_coverage.expected}",
    )


def categories(report: MetricReport) -> Html | None:
    """The headline series by category, and by node of the category tree."""
    series = report.headline()
    if series is None or not (series.categories or series.hierarchy):
        return None
    parts: list[Html] = []
    for title, values in (("", series.categories), ("By the category tree", series.hierarchy)):
        if values:
            parts += [element("h3", title)] if title else []
            parts.append(_category_chart(values, series.kind))
    note = f"{series.id}; the line is the 95 % interval. Click a category to see its tasks."
    return section("Categories", element("p", note, class_="dim"), parts, name="categories")


def _category_chart(values: dict[str, CategoryValue], kind: MetricKind) -> Html:
    scale = Scale.over(values.values(), kind)
    rows = [
        element(
            "div",
            element(
                "button",
                "(none)" if name == UNCATEGORIZED else name,
                type="button",
                class_="name",
                data_category="" if name == UNCATEGORIZED else category_label(name),
            ),
            interval_bar(value, scale),
            element("span", format_value(value), class_="num"),
            element("span", f"{value.counts.evaluated}/{value.counts.total}", class_="num dim"),
            class_="row",
        )
        for name, value in islice(values.items(), MAX_CATEGORIES)
    ]
    more = len(values) - len(rows)
    ends = element("div", element("span"), axis(scale), element("span"), element("span"), class_="row")
    note = element("p", f"… and {more} more in metrics.json", class_="dim") if more > 0 else None
    return element("div", rows, ends, note, class_="chart")


def exclusions(report: MetricReport) -> Html | None:
    """What the numbers leave out, and why."""
    if not report.exclusions:
        return None
    rows = [
        (
            item.task_id,
            item.category,
            element("span", item.state.value, class_=f"x-{item.state.value}"),
            item.code,
            item.reason,
        )
        for item in report.exclusions[:MAX_EXCLUSIONS]
    ]
    more = len(report.exclusions) - len(rows)
    note = (
        element("p", f"… and {more} more in metrics.json and in the task table", class_="dim")
        if more
        else None
    )
    summary = element(
        "summary", f"{count(len(report.exclusions))} {'entry' if len(report.exclusions) == 1 else 'entries'}"
    )
    body = element(
        "details", summary, table(("Task", "Category", "State", "Code", "Reason"), rows), note, open=more == 0
    )
    return section("Not counted", body, name="excluded")
