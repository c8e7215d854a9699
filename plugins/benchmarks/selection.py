"""The parameters by which a request picks some of a benchmark's tasks."""

from __future__ import annotations

from pydantic import Field

from ...contracts.base import Contract


class TaskSelection(Contract):
    """Base of a benchmark's parameters; ``Benchmark.select_tasks`` honours both fields."""

    sample_ids: list[str] | None = Field(default=None, min_length=1)
    """Run only the tasks of these ids."""
    limit: int | None = Field(default=None, ge=1)
    """Run at most this many, from the start of the (remaining) list."""
