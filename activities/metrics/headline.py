"""The line that says how a run went; it never shows a score without what the score leaves out."""

from __future__ import annotations

from collections import Counter

from ...contracts.metrics import Estimate, Interval, MetricReport, MetricSeries, MetricState
from .text import one_line

_MAX_REASONS = 5


def headline(report: MetricReport) -> str:
    """One line of plain text, fit for a terminal."""
    return " | ".join(headline_parts(report))


def headline_parts(report: MetricReport) -> list[str]:
    """The parts of the line: the number first, or that there is none; then what it covers."""
    counts = report.counts
    parts = [*_number(report), f"{counts.evaluated}/{counts.total} tasks evaluated"]
    if counts.unavailable:
        parts.append(f"{counts.unavailable} NOT evaluated: {_reasons(report, MetricState.UNAVAILABLE)}")
    if counts.error:
        parts.append(f"{counts.error} with errors")
    coverage = report.attempt_coverage
    if report.attempts.k > 1:
        parts.append(f"{coverage.valid}/{coverage.expected} attempts valid")
    return parts


def format_number(value: float) -> str:
    """Four decimals, or six significant digits where those would hide the number."""
    return f"{value:.4f}" if value == 0.0 or 1e-3 <= abs(value) < 1e6 else f"{value:.6g}"


def format_value(estimate: Estimate) -> str:
    """The official value; else the reference value, marked as such; else a dash."""
    if estimate.value is not None:
        return format_number(estimate.value)
    if estimate.reference_value is not None:
        return f"{format_number(estimate.reference_value)} (reference)"
    return "-"


def format_interval(interval: Interval | None) -> str:
    """``low to high``, or a dash."""
    return f"{format_number(interval.low)} to {format_number(interval.high)}" if interval else "-"


def _number(report: MetricReport) -> list[str]:
    series = report.headline()
    if not report.evaluation_failed:
        if series is None or series.value is None:
            return [f"{one_line(report.primary)} unavailable"]
        return [f"{one_line(series.id)} = {format_number(series.value)}{_interval(series.interval)}"]
    counts = report.counts
    reasons = _reasons(report, MetricState.INVALIDATED)
    parts = [
        f"EVALUATION FAILED: {counts.invalidated} of {counts.total} tasks invalidated by fatal issues"
        f" ({reasons}), no official score"
    ]
    parts.append(_reference(series))
    return parts


def _reference(series: MetricSeries | None) -> str:
    if series is None or series.reference_value is None:
        return "no reference value"
    number = f"{format_number(series.reference_value)}{_interval(series.reference_interval)}"
    return f"reference only, without the invalidated tasks: {one_line(series.id)} = {number}"


def _interval(interval: Interval | None) -> str:
    return f" ({interval.level * 100:g}% CI {format_interval(interval)})" if interval else ""


def _reasons(report: MetricReport, state: MetricState) -> str:
    """Codes with counts, the most frequent first, for the tasks that the headline does not count."""
    codes = Counter(
        one_line(entry.code, 60)
        for entry in report.exclusions
        if entry.state is state and report.primary in entry.series
    )
    ranked = sorted(codes.items(), key=lambda item: (-item[1], item[0]))
    shown = [f"{code} {count}" for code, count in ranked[:_MAX_REASONS]]
    rest = sum(count for _, count in ranked[_MAX_REASONS:])
    if rest:
        shown.append(f"other reasons {rest}")
    return ", ".join(shown) or "reason unknown"
