"""Metrics: what a benchmark promises to measure, and the report over a run."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Literal

from pydantic import Field, model_validator

from .base import Contract
from .issues import Issue
from .request import AttemptsSpec, AttemptStrategy
from .result import TaskStatus

METRICS_SCHEMA = "agentcompass.metrics.v1"
UNCATEGORIZED = "__uncategorized__"
"""The category, in reports, of tasks that have none."""

_METRIC_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")


class MetricKind(StrEnum):
    """``binary`` observations are JSON booleans, ``scalar`` ones finite numbers."""

    BINARY = "binary"
    SCALAR = "scalar"


class MetricContract(Contract):
    """The metrics that a benchmark may return and which of them is the headline."""

    primary: str
    metrics: dict[str, MetricKind]

    @model_validator(mode="after")
    def _names_are_usable(self) -> MetricContract:
        if self.primary not in self.metrics:
            raise ValueError(f"the primary metric {self.primary!r} is not declared")
        for name in self.metrics:
            if not _METRIC_NAME.fullmatch(name):
                raise ValueError(f"{name!r} is not a metric name: a letter, then letters, digits, _ . -")
        return self

    @property
    def primary_kind(self) -> MetricKind:
        """The kind of the headline metric."""
        return self.metrics[self.primary]


BENCHMARK_DEFAULT_CONTRACT = MetricContract(primary="correct", metrics={"correct": MetricKind.BINARY})
SCALAR_CONTRACT = MetricContract(primary="score", metrics={"score": MetricKind.SCALAR})


class Reducer(StrEnum):
    """How the attempts of one task become one number.

    ``native`` is the only attempt's observation (k = 1), ``avg`` the mean of all k, ``pass``
    whether any of k succeeded (binary metrics only).
    """

    NATIVE = "native"
    AVG = "avg"
    PASS = "pass"


class AggregationMode(StrEnum):
    """How tasks become one number: over all of them, over categories, or over a weighted tree.

    ``micro_weighted``, AgentCompass's name for ``micro``, is accepted.
    """

    MICRO = "micro"
    CATEGORY_MEAN = "category_mean"
    CATEGORY_HIERARCHY = "category_hierarchy"

    @classmethod
    def _missing_(cls, value: object) -> AggregationMode | None:
        return cls.MICRO if value == "micro_weighted" else None


class CategoryNode(Contract):
    """A node of the category tree; a leaf is named after the category whose tasks it stands for.

    ``weighted`` uses the children's ``weight``, ``weighted_by_count`` their evaluated tasks,
    ``unweighted`` counts each child once. Children without an evaluated task take no part.
    """

    aggregation: Literal["leaf", "unweighted", "weighted", "weighted_by_count"] = "leaf"
    weight: float | None = Field(default=None, gt=0, le=1e12)
    children: dict[str, CategoryNode] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _null_means_no_children(cls, value: object) -> object:
        if isinstance(value, dict) and value.get("children", ...) is None:
            return {key: item for key, item in value.items() if key != "children"}
        return value

    @model_validator(mode="after")
    def _children_fit(self) -> CategoryNode:
        if self.aggregation == "leaf" and self.children:
            raise ValueError(
                "a node with children needs aggregation unweighted, weighted or weighted_by_count"
            )
        if self.aggregation != "leaf" and not self.children:
            raise ValueError(f"aggregation {self.aggregation} needs children")
        if self.aggregation == "weighted":
            bare = sorted(name for name, child in self.children.items() if child.weight is None)
            if bare:
                raise ValueError(f"aggregation weighted needs a weight for {', '.join(bare)}")
        return self

    def leaves(self, name: str) -> list[str]:
        """The categories at or below this node, which itself is called ``name``."""
        if not self.children:
            return [name]
        return [leaf for key, child in self.children.items() for leaf in child.leaves(key)]


class CategoryHierarchy(Contract):
    """The tree of ``category_hierarchy``; its root is called ``overall``, a category occurs once."""

    overall: CategoryNode

    @model_validator(mode="after")
    def _categories_occur_once(self) -> CategoryHierarchy:
        names = self.categories()
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise ValueError(f"the category hierarchy names {', '.join(repeated)} more than once")
        return self

    def categories(self) -> list[str]:
        """The names of all leaves."""
        return self.overall.leaves("overall")


class AggregationSpec(Contract):
    """How the series of a report are aggregated over its tasks."""

    mode: AggregationMode = AggregationMode.MICRO
    hierarchy: CategoryHierarchy | None = None

    @model_validator(mode="after")
    def _tree_where_needed(self) -> AggregationSpec:
        if self.mode is AggregationMode.CATEGORY_HIERARCHY and self.hierarchy is None:
            raise ValueError("aggregation category_hierarchy needs a category_hierarchy")
        return self


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
    """A final issue is an ERROR; independent of ``fatal``."""
    status: TaskStatus = TaskStatus.COMPLETED
    issue: Issue | None = None
    """The first issue of the worst severity, its message cut to one line."""


class TaskObservations(Contract):
    """What one task contributes: its attempts, and whether their number depends on a success."""

    task_id: str
    category: str = ""
    attempts: list[AttemptObservation] = Field(default_factory=list)
    expected_attempts: int = 1
    stopped_early: bool = False
    """Attempts ended at the first success, so that those not made are not missing."""
    issue: Issue | None = None
    """Why there are no attempts, when that is known (an unreadable record, say)."""


class MetricCounts(Contract):
    """evaluated + unavailable + invalidated = total; ``error`` is counted independently."""

    total: int = 0
    evaluated: int = 0
    unavailable: int = 0
    invalidated: int = 0
    error: int = 0


class AttemptCoverage(Contract):
    """Attempts expected (stopped ones not counted), valid (scored, no FATAL), with ERROR or FATAL.

    The report's own coverage is that of its primary series.
    """

    expected: int = 0
    valid: int = 0
    error: int = 0


class Interval(Contract):
    """A confidence interval and how it was computed."""

    method: str
    level: float
    low: float
    high: float


class Estimate(Contract):
    """A number beside its coverage. ``value`` is official, and null when the evaluation failed;
    then ``reference_value`` is what can be computed without the invalidated tasks.
    """

    value: float | None = None
    reference_value: float | None = None
    interval: Interval | None = None
    """Of ``value``."""
    reference_interval: Interval | None = None
    """Of ``reference_value``."""
    counts: MetricCounts = Field(default_factory=MetricCounts)
    attempt_coverage: AttemptCoverage = Field(default_factory=AttemptCoverage)


class CategoryValue(Estimate):
    """A series within one category, or at one node of the category tree."""

    weight: float | None = None
    """The share, at its parent in the tree, of this node (0 to 1); null outside of a tree."""


class MetricSeries(Estimate):
    """One number over all tasks; ``id`` is ``<metric>.<reducer>@<k>``."""

    id: str
    metric: str
    reducer: Reducer
    k: int
    kind: MetricKind
    aggregation: AggregationMode = AggregationMode.MICRO
    categories: dict[str, CategoryValue] = Field(default_factory=dict)
    """By category; empty when no task has one."""
    hierarchy: dict[str, CategoryValue] = Field(default_factory=dict)
    """By path from ``overall``; ``~`` and ``/`` in names are written ``~0`` and ``~1``."""


class Exclusion(Contract):
    """A task that some series do not count, and why."""

    task_id: str
    category: str = ""
    state: MetricState
    code: str
    """An issue code, or ``not_run``, ``record_unreadable``, ``record_unclassified``, ``not_observed``, ``skipped``, ``cancelled``,
    ``category_unplaced``."""
    reason: str
    series: list[str] = Field(default_factory=list)


class Tally(Contract):
    """A sum, and how many model calls reported the quantity."""

    total: int | float = 0
    calls: int = 0


class UsageTotals(Contract):
    """Tokens, money and time of the model calls in the final executions of all attempts."""

    attempts: int = 0
    steps: int = 0
    calls: int = 0
    """Steps of the agent."""
    prompt_tokens: Tally = Field(default_factory=Tally)
    completion_tokens: Tally = Field(default_factory=Tally)
    cached_tokens: Tally = Field(default_factory=Tally)
    reasoning_tokens: Tally = Field(default_factory=Tally)
    cost_usd: Tally = Field(default_factory=Tally)
    latency_seconds: Tally = Field(default_factory=Tally)
    max_latency_seconds: float = 0.0


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
    aggregation: AggregationSpec = Field(default_factory=AggregationSpec)
    series: list[MetricSeries] = Field(default_factory=list)
    exclusions: list[Exclusion] = Field(default_factory=list)
    usage: UsageTotals | None = None

    def headline(self) -> MetricSeries | None:
        """The primary series, if there is one."""
        return next((item for item in self.series if item.id == self.primary), None)


__all__ = [
    "BENCHMARK_DEFAULT_CONTRACT",
    "METRICS_SCHEMA",
    "SCALAR_CONTRACT",
    "UNCATEGORIZED",
    "AggregationMode",
    "AggregationSpec",
    "AttemptCoverage",
    "AttemptObservation",
    "AttemptStrategy",
    "CategoryHierarchy",
    "CategoryNode",
    "CategoryValue",
    "Estimate",
    "Exclusion",
    "Interval",
    "MetricContract",
    "MetricCounts",
    "MetricKind",
    "MetricReport",
    "MetricSeries",
    "MetricState",
    "Reducer",
    "Tally",
    "TaskObservations",
    "UsageTotals",
]
