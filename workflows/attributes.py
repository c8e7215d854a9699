"""Search attributes of launches, requests and attempts."""

from __future__ import annotations

from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes

from ..contracts import search_attributes as names
from ..contracts.request import RunRequest


def launch_attributes(launch_id: str) -> TypedSearchAttributes:
    """What a launch of many requests can be found by."""
    return TypedSearchAttributes(
        [SearchAttributePair(SearchAttributeKey.for_keyword(names.LAUNCH), launch_id)]
    )


def request_attributes(
    launch_id: str, request: RunRequest, *, run_id: str = "", task_id: str = ""
) -> TypedSearchAttributes:
    """What a workflow can be found by; empty values are left out."""
    values = {
        names.LAUNCH: launch_id,
        names.RUN_ID: run_id,
        names.BENCHMARK: request.benchmark.id,
        names.HARNESS: request.harness.id,
        names.MODEL: request.model.id,
        names.ENVIRONMENT: request.environment.id,
        names.TASK: task_id,
    }
    return TypedSearchAttributes(
        [
            SearchAttributePair(SearchAttributeKey.for_keyword(name), value)
            for name, value in values.items()
            if value
        ]
    )
