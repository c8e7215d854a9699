"""The request as ``run_info.json`` and ``params.json`` tell of it."""

from __future__ import annotations

from typing import Any

from pydantic import JsonValue

from ...contracts.records import RunParams
from ...contracts.request import RunRequest


def recorded_request(request: RunRequest, run_id: str) -> dict[str, JsonValue]:
    """The merged request without empty values and runtime fields, with the run id that was settled on.

    Secrets are masked when it is written.
    """
    value = request.model_dump(mode="json")
    value["output"]["run_id"] = run_id
    pruned: dict[str, JsonValue] = _prune(value)
    return pruned


def recorded_params(request: RunRequest, run_id: str) -> RunParams:
    """What a new summary needs: model, benchmark and output."""
    value = recorded_request(request, run_id)
    return RunParams.model_validate({name: value.get(name, {}) for name in ("model", "benchmark", "output")})


def _prune(value: Any) -> Any:
    """``value`` without null, ``""``, ``{}``, ``[]`` and names that begin with an underscore."""
    if isinstance(value, list):
        return [_prune(item) for item in value]
    if not isinstance(value, dict):
        return value
    kept = {name: _prune(item) for name, item in value.items() if not name.startswith("_")}
    return {
        name: item
        for name, item in kept.items()
        if item is not None and item != "" and item != {} and item != []
    }
