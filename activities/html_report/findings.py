"""What happened in the attempts of a run: issues, usage, findings of analyzers."""

from __future__ import annotations

from ...contracts.metrics import Tally
from .blocks import section, table
from .charts import share_bar
from .facts import PageFacts
from .markup import Html, element
from .numbers import count, duration, money
from .rows import RowCounts

MAX_CODES = 30


def issues(counts: RowCounts) -> Html | None:
    """Which issues tasks ended with, the most severe first."""
    found = counts.issues
    if not found:
        return None
    order = {"fatal": 0, "error": 1, "warning": 2}
    ranked = sorted(found.items(), key=lambda item: (order.get(item[0][0], 3), -item[1], item[0][1]))
    most = max(found.values())
    rows = [
        element(
            "div",
            element("button", code, type="button", class_="name", data_code=code),
            share_bar(number / most, f"s-{severity}"),
            element("span", severity, class_=f"s-{severity}"),
            element("span", count(number), class_="num"),
            class_="row",
        )
        for (severity, code), number in ranked[:MAX_CODES]
    ]
    more = (
        element("p", f"… and {len(ranked) - MAX_CODES} more codes", class_="dim")
        if len(ranked) > MAX_CODES
        else None
    )
    note = element("p", "Tasks by the issues of their attempts. Click a code to see them.", class_="dim")
    return section("Issues", note, element("div", rows, class_="chart"), more, name="issues")


def usage(counts: RowCounts) -> Html | None:
    """Tokens, money and time, each beside the number of model calls that report it."""
    totals = counts.usage.totals
    if not totals.calls:
        return None
    latency = totals.latency_seconds
    mean = latency.total / latency.calls if latency.calls else 0.0
    quantities: list[tuple[str, Tally, str]] = [
        ("Prompt tokens", totals.prompt_tokens, count(totals.prompt_tokens.total)),
        ("of these cached", totals.cached_tokens, count(totals.cached_tokens.total)),
        ("Completion tokens", totals.completion_tokens, count(totals.completion_tokens.total)),
        ("of these reasoning", totals.reasoning_tokens, count(totals.reasoning_tokens.total)),
        ("Cost", totals.cost_usd, money(totals.cost_usd.total)),
        ("Latency, sum", latency, duration(latency.total)),
        ("Latency, mean", latency, duration(mean)),
        ("Latency, longest", latency, duration(totals.max_latency_seconds)),
    ]
    rows = [(name, text, f"{tally.calls}/{totals.calls}") for name, tally, text in quantities if tally.calls]
    about = (
        f"{count(totals.calls)} model calls in {count(totals.steps)} steps of {count(totals.attempts)} attempts; "
        "executions discarded by a retry are not included."
    )
    note = element("p", about, class_="dim")
    return section(
        "Usage and cost", note, table(("Quantity", "Total", "Calls that report it"), rows, 1), name="usage"
    )


def analysis(facts: PageFacts) -> Html | None:
    """What analyzers found, by label."""
    found = facts.analysis
    if found is None:
        return None
    rows = [
        (analyzer.analyzer, label.label, str(label.attempts), str(label.tasks), ", ".join(label.examples[:5]))
        for analyzer in found.analyzers
        for label in analyzer.labels[:MAX_CODES]
    ]
    failed = [
        element(
            "p",
            f"{analyzer.analyzer} failed on {analyzer.failed} attempts: {'; '.join(analyzer.errors[:3])}",
            class_="notice warn",
        )
        for analyzer in found.analyzers
        if analyzer.failed
    ]
    if not rows and not failed:
        return None
    about = element(
        "p",
        f"{found.analyzed_attempts} of {found.attempts} attempts analysed; findings never change a score.",
        class_="dim",
    )
    body = table(("Analyzer", "Label", "Attempts", "Tasks", "For example"), rows) if rows else None
    return section("Analysis", about, failed, body, name="analysis")
