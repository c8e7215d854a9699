"""Search attributes of launches, requests and attempts."""

from __future__ import annotations

from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes

from ..contracts import search_attributes as names
from ..contracts.launch import LaunchSpec
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


def spec_attributes(launch_id: str, spec: LaunchSpec) -> TypedSearchAttributes:
    """What a launch can be found by; its run id, too, when that is given and the same for all its requests."""
    if len(spec.requests) > 1:
        return launch_attributes(launch_id)
    [request] = spec.requests
    return request_attributes(launch_id, request, run_id=request.output.run_id)


def launch_memo(spec: LaunchSpec) -> dict[str, str]:
    """What a list of launches shows beside their state."""
    scheduled = spec.requests[0].metadata.scheduled
    return {"name": spec.name} | ({"schedule": scheduled.schedule} if scheduled else {})


def launch_summary(spec: LaunchSpec) -> str:
    """One line for the Temporal UI."""
    if len(spec.requests) > 1:
        return f"{spec.name or 'launch'} · {len(spec.requests)} requests"
    [request] = spec.requests
    return f"{request.benchmark.id} · {request.harness.id} · {request.model.id}"


def launch_details(spec: LaunchSpec) -> str:
    """Where results go, for the Temporal UI."""
    return f"Results: `{spec.runtime.results_dir}`, at most {spec.task_concurrency} attempts at a time."
