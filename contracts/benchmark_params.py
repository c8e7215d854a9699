"""The parameters that every benchmark has in common: which tasks run, and how their numbers are combined."""

from __future__ import annotations

from pydantic import Field, model_validator

from .base import Contract
from .metrics import AggregationMode, AggregationSpec, CategoryHierarchy


class BenchmarkParams(Contract):
    """Base of a benchmark's parameters; ``Benchmark.select_tasks`` and ``Benchmark.aggregation`` honour them."""

    sample_ids: list[str] | None = Field(default=None, min_length=1)
    """Run only the tasks of these ids."""
    limit: int | None = Field(default=None, ge=1)
    """Run at most this many, from the start of the (remaining) list."""
    aggregation_mode: AggregationMode = AggregationMode.MICRO
    """How tasks become one number: ``micro``, ``category_mean`` or ``category_hierarchy``."""
    category_hierarchy: CategoryHierarchy | None = None
    """A weighted tree over the categories; where there is one, it is used whatever the mode says."""

    @model_validator(mode="after")
    def _can_be_aggregated(self) -> BenchmarkParams:
        aggregation_spec(self.aggregation_mode, self.category_hierarchy)
        return self


def aggregation_spec(
    mode: AggregationMode | str | None, hierarchy: CategoryHierarchy | dict[str, object] | None
) -> AggregationSpec:
    """Both parameters as one; as in AgentCompass, a tree decides. Raises ``ValueError`` for a tree that is missing."""
    if hierarchy is not None:
        mode = AggregationMode.CATEGORY_HIERARCHY
    return AggregationSpec.model_validate({"mode": mode or AggregationMode.MICRO, "hierarchy": hierarchy})
