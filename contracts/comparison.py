"""What ``agentcompass compare`` tells of two runs of the same benchmark."""

from __future__ import annotations

from typing import Final

from pydantic import Field

from .base import Contract
from .metrics import AttemptCoverage, Interval, MetricCounts
from .records import DamagedRecord

COMPARISON_SCHEMA: Final = "agentcompass.comparison.v1"


class ComparedRun(Contract):
    """One side: the number that the run itself reports, beside what it covers."""

    run_id: str
    run_dir: str
    model: str = ""
    harness: str = ""
    environment: str = ""
    status: str = ""
    """Empty while it runs."""
    series: str
    """The id of the series that is compared, ``<metric>.<reducer>@<k>``."""
    evaluation_failed: bool = False
    value: float | None = None
    """Official; null when the evaluation failed or nothing was evaluated."""
    reference_value: float | None = None
    interval: Interval | None = None
    """Of ``value``, else of ``reference_value``."""
    counts: MetricCounts = Field(default_factory=MetricCounts)
    attempt_coverage: AttemptCoverage = Field(default_factory=AttemptCoverage)
    damaged: list[DamagedRecord] = Field(default_factory=list)
    """Task records that cannot be read now, whatever the run's own report once counted."""


class TaskChange(Contract):
    """A task whose number differs between the two runs."""

    task_id: str
    category: str = ""
    old: float
    new: float


class TaskGap(Contract):
    """A task that only one of the two runs has a number for, and why the other has none."""

    task_id: str
    category: str = ""
    code: str
    reason: str


class PairedDifference(Contract):
    """New minus old over the tasks that both runs evaluated, aggregated as in the new run."""

    tasks: int = 0
    old: float | None = None
    new: float | None = None
    difference: float | None = None
    """Null when no task was evaluated in both."""
    interval: Interval | None = None
    """Null when the spread of the differences cannot be told."""
    better: int = 0
    worse: int = 0
    equal: int = 0


class TaskChanges(Contract):
    """What became of the tasks of the old run in the new one. A larger number is taken as a better one."""

    paired: PairedDifference = Field(default_factory=PairedDifference)
    worse: list[TaskChange] = Field(default_factory=list)
    """The largest change first."""
    better: list[TaskChange] = Field(default_factory=list)
    """The largest change first."""
    lost: list[TaskGap] = Field(default_factory=list)
    """Evaluated in the old run, in the new run selected but without a number."""
    gained: list[TaskGap] = Field(default_factory=list)
    """Evaluated in the new run, in the old one selected but without a number."""
    changed_content: list[str] = Field(default_factory=list)
    """Tasks with the same id whose content differs: they are not compared."""
    only_old: int = 0
    """Tasks that only the old run selected."""
    only_new: int = 0
    """Tasks that only the new run selected."""


class Comparison(TaskChanges):
    """Two runs task by task."""

    schema_version: str = COMPARISON_SCHEMA
    benchmark: str
    metric: str
    old: ComparedRun
    new: ComparedRun
    notes: list[str] = Field(default_factory=list)
    """What a reader has to know before the numbers mean anything."""
    regressions: list[str] = Field(default_factory=list)
    """Why the new run counts as worse, or cannot be shown not to be; empty when it does not."""

    @property
    def regressed(self) -> bool:
        """True when ``--fail-on-regression`` fails."""
        return bool(self.regressions)
