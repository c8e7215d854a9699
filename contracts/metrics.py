"""Metrics: what a benchmark promises to measure, and the report over a run."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field, model_validator

from .base import Contract
from .request import AttemptsSpec, AttemptStrategy

METRICS_SCHEMA = "agentcompass.metrics.v1"


class MetricKind(StrEnum):
    """``binary`` observations are JSON booleans, ``scalar`` ones finite numbers."""

    BINARY = "binary"
    SCALAR = "scalar"


class MetricContract(Contract):
    """The metrics that a benchmark may return and which of them is the headline."""

    primary: str
    metrics: dict[str, MetricKind]

    @model_validator(mode="after")
    def _primary_is_declared(self) -> MetricContract:
        if self.primary not in self.metrics:
            raise ValueError(f"the primary metric {self.primary!r} is not declared")
        return self


BENCHMARK_DEFAULT_CONTRACT = MetricContract(primary="correct", metrics={"correct": MetricKind.BINARY})
SCALAR_CONTRACT = MetricContract(primary="score", metrics={"score": MetricKind.SCALAR})


class MetricState(StrEnum):
    """Of a task in a series: counted, without an observation, or made worthless by a FATAL."""

    EVALUATED = "evaluated"
    UNAVAILABLE = "unavailable"
    INVALIDATED = "invalidated"


class AttemptObservation(Contract):
    """What one finished attempt contributes to the metrics."""

    attempt: int = Field(ge=1)
    metrics: dict[str, bool | int | float] = Field(default_factory=dict)
    fatal: bool = False
    error: bool = False


class TaskObservations(Contract):
    """What one task contributes: its attempts, and whether stopping early was right."""

    task_id: str
    category: str = ""
    attempts: list[AttemptObservation] = Field(default_factory=list)
    expected_attempts: int = 1
    stopped_early: bool = False


class MetricCounts(Contract):
    """evaluated + unavailable + invalidated = total; ``error`` is counted independently."""

    total: int = 0
    evaluated: int = 0
    unavailable: int = 0
    invalidated: int = 0
    error: int = 0


class AttemptCoverage(Contract):
    """Attempts expected (stopped ones not counted), valid (scored, no FATAL), with ERROR or FATAL."""

    expected: int = 0
    valid: int = 0
    error: int = 0


class Interval(Contract):
    """A confidence interval and how it was computed."""

    method: str
    level: float
    low: float
    high: float


class CategoryValue(Contract):
    """A series within one category."""

    value: float | None = None
    reference_value: float | None = None
    counts: MetricCounts = Field(default_factory=MetricCounts)


class MetricSeries(Contract):
    """One number over all tasks. ``value`` is official; null when the evaluation failed.

    ``reference_value`` is what can be computed without the invalidated tasks.
    """

    id: str
    metric: str
    reducer: str
    k: int
    kind: MetricKind
    aggregation: str = "micro"
    value: float | None = None
    reference_value: float | None = None
    interval: Interval | None = None
    counts: MetricCounts = Field(default_factory=MetricCounts)
    categories: dict[str, CategoryValue] = Field(default_factory=dict)


class Exclusion(Contract):
    """A task that a series does not count, and why."""

    task_id: str
    state: MetricState
    reason: str


class MetricReport(Contract):
    """``metrics.json``: every number of a run, each beside its coverage."""

    schema_version: str = METRICS_SCHEMA
    benchmark: str
    evaluation_failed: bool = False
    primary: str
    """The id of the headline series."""
    attempts: AttemptsSpec = Field(default_factory=AttemptsSpec)
    counts: MetricCounts = Field(default_factory=MetricCounts)
    attempt_coverage: AttemptCoverage = Field(default_factory=AttemptCoverage)
    series: list[MetricSeries] = Field(default_factory=list)
    exclusions: list[Exclusion] = Field(default_factory=list)

    def headline(self) -> MetricSeries | None:
        """The primary series, if there is one."""
        return next((item for item in self.series if item.id == self.primary), None)


__all__ = [
    "BENCHMARK_DEFAULT_CONTRACT",
    "METRICS_SCHEMA",
    "SCALAR_CONTRACT",
    "AttemptCoverage",
    "AttemptObservation",
    "AttemptStrategy",
    "CategoryValue",
    "Exclusion",
    "Interval",
    "MetricContract",
    "MetricCounts",
    "MetricKind",
    "MetricReport",
    "MetricSeries",
    "MetricState",
    "TaskObservations",
]
