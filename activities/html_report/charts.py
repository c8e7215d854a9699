"""Charts as inline SVG: intervals and stacked bars. Positions are percentages, so they fit any width."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ...contracts.metrics import Estimate, Interval, MetricKind
from ..metrics.headline import format_interval, format_number
from .markup import Html, element, join


@dataclass(frozen=True)
class Scale:
    """From a number to a place between 0 and 100 percent."""

    low: float
    high: float

    @classmethod
    def over(cls, estimates: Iterable[Estimate], kind: MetricKind) -> Scale:
        """Rates from 0 to 1; scalars over all values and intervals, and 0."""
        if kind is MetricKind.BINARY:
            return cls(0.0, 1.0)
        numbers = [0.0]
        for estimate in estimates:
            value, interval = shown(estimate)
            numbers += [] if value is None else [value]
            numbers += [interval.low, interval.high] if interval else []
        finite = [number for number in numbers if math.isfinite(number)]
        low, high = min(finite), max(finite)
        return cls(low, high if high > low else low + 1.0)

    def at(self, number: float) -> float:
        """The place of ``number``, kept within the chart."""
        share = (number / 2 - self.low / 2) / (self.high / 2 - self.low / 2)  # halves cannot overflow
        return min(max(share, 0.0), 1.0) * 100 if math.isfinite(share) else 0.0


def shown(estimate: Estimate) -> tuple[float | None, Interval | None]:
    """The official number and interval, or those for reference."""
    if estimate.value is not None:
        return estimate.value, estimate.interval
    return estimate.reference_value, estimate.reference_interval


def interval_bar(estimate: Estimate, scale: Scale) -> Html:
    """A bar from 0 to the value with the interval across its end; empty without a value."""
    value, interval = shown(estimate)
    if value is None:
        return element("svg", class_="bar empty", role="img", aria_label="no value")
    zero, end = scale.at(0.0), scale.at(value)
    reference = " reference" if estimate.value is None else ""
    parts = [_rect("track", 0.0, 100.0, y=3, height=10)]
    parts.append(_rect(f"value{reference}", min(zero, end), abs(end - zero), y=3, height=10))
    if interval is not None:
        low, high = scale.at(interval.low), scale.at(interval.high)
        parts.append(_line("whisker", low, high, 8, 8))
        parts += [_line("whisker", place, place, 4, 12) for place in (low, high)]
    label = f"{format_number(value)}, interval {format_interval(interval)}"
    return element("svg", parts, class_="bar", role="img", aria_label=label)


def stacked_bar(counts: Mapping[str, int], order: Sequence[str]) -> Html:
    """Shares of a whole, one segment for each of ``order`` that occurs."""
    total = sum(counts.values())
    segments: list[Html] = []
    start = 0.0
    for name in order:
        if counts.get(name):
            width = counts[name] / total * 100
            title = element("title", f"{name}: {counts[name]} of {total}")
            segments.append(_rect(f"r-{name}", start, width, y=0, height=16, title=title))
            start += width
    return element("svg", segments, class_="stack", role="img", aria_label="tasks by result")


def share_bar(share: float, kind: str) -> Html:
    """A plain bar of ``share`` (0 to 1) of the width."""
    return element("svg", _rect(kind, 0.0, share * 100, y=3, height=10), class_="bar", aria_hidden="true")


def axis(scale: Scale) -> Html:
    """The numbers at both ends of a scale."""
    ends = [element("span", f"{number:.6g}") for number in (scale.low, scale.high)]
    return element("span", join(ends), class_="axis")


def _rect(kind: str, x: float, width: float, *, y: int, height: int, title: Html | None = None) -> Html:
    return element(
        "rect", title, class_=kind, x=f"{x:.3f}%", width=f"{max(width, 0.0):.3f}%", y=y, height=height
    )


def _line(kind: str, x1: float, x2: float, y1: int, y2: int) -> Html:
    return element("line", class_=kind, x1=f"{x1:.3f}%", x2=f"{x2:.3f}%", y1=y1, y2=y2)
