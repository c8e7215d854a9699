"""Settings that shape results and are no part of their identity: a model's parameters, a harness's, a judge's.

Reuse goes by content: a task that is the same is taken over whatever else was set. A number over results of
different settings must say so, however.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel, JsonValue, ValidationError

from ...contracts.benchmark_params import BenchmarkParams
from ...contracts.component import local_path_fields
from ...contracts.errors import ConfigurationError
from ...contracts.request import ModelSpec, RunRequest
from ...plugins.models.params import parse_model_params
from ..metrics.text import one_line
from ..redaction import REDACTOR
from ..services import RequestComponents

_BESIDE_THE_POINT = frozenset(
    {
        *("base_url", "api_key", "api_protocol", "max_attempts", "script", "record"),
        *("retry_min_delay_seconds", "retry_max_delay_seconds"),
    }
)
"""Where a model is, and how patiently it is asked."""
_TIME_LIMIT = "timeout_seconds"
_SHOWN = 60
MAX_DIFFERENCES = 10

Settings = dict[str, JsonValue]
"""Values by dotted name, such as ``model.params.temperature``."""


def settings_of(components: RequestComponents, request: RunRequest | None = None) -> Settings:
    """What shapes the results of ``request``, by default the components' own; another one is of the same components.

    Defaults are filled in, so that writing one down changes nothing. Addresses, keys, retries, time limits and the
    choice of tasks are left out.
    """
    parts = _parts(components, request or components.request, defaults=True)
    return {name: value for prefix, part in parts.items() for name, value in _flat(prefix, part)}


def settings_digest(components: RequestComponents) -> str:
    """sha256 (hex) of what differs from the defaults among the settings of :func:`settings_of`; made once.

    Not of the defaults: a version with one more of them makes nothing that was done before "other settings".
    """
    if not components.settings_digest:
        settings = _to_the_point(_parts(components, components.request, defaults=False))
        text = json.dumps(settings, sort_keys=True, separators=(",", ":"))
        components.settings_digest = hashlib.sha256(text.encode()).hexdigest()
    return components.settings_digest


def differences(there: Settings, here: Settings) -> list[str]:
    """``model.params.temperature: 0.0 there, 0.7 here`` for each setting that differs, the first of them."""
    names = [name for name in sorted(there.keys() | here.keys()) if there.get(name) != here.get(name)]
    return [
        f"{one_line(name, _SHOWN)}: {_shown(there.get(name))} there, {_shown(here.get(name))} here"
        for name in names[:MAX_DIFFERENCES]
    ]


def _parts(
    components: RequestComponents, request: RunRequest, *, defaults: bool
) -> dict[str, Mapping[str, Any]]:
    benchmark, harness = components.benchmark, components.harness
    selection = {*BenchmarkParams.model_fields, *local_path_fields(type(benchmark.params))}
    params = _dumped(type(benchmark.params), request.benchmark.params, defaults=defaults)
    return {
        "model.params": _model_params(request.model, defaults=defaults),
        "benchmark.params": {name: value for name, value in params.items() if name not in selection},
        "harness.params": _dumped(type(harness.params), request.harness.params, defaults=defaults)
        if harness
        else {},
    }


def _model_params(spec: ModelSpec, *, defaults: bool) -> Mapping[str, Any]:
    try:
        return parse_model_params(spec).model_dump(mode="json", exclude_defaults=not defaults)
    except ConfigurationError:
        return spec.params  # of a harness that calls no model, or has parameters of its own


def _dumped(model: type[BaseModel], params: Mapping[str, JsonValue], *, defaults: bool) -> Mapping[str, Any]:
    try:
        found = model.model_validate(params)
    except ValidationError:
        return params  # of an older version of the component
    return found.model_dump(mode="json", warnings=False, exclude_defaults=not defaults)


def _is_beside(key: str) -> bool:
    return key in _BESIDE_THE_POINT or key.endswith(_TIME_LIMIT)


def _to_the_point(value: Mapping[str, Any]) -> dict[str, Any]:
    """As nested as it is: also an empty mapping, or a null, is something else than a default."""
    return {
        key: _to_the_point(item) if isinstance(item, Mapping) else item
        for key, item in value.items()
        if not _is_beside(key)
    }


def _flat(prefix: str, value: Mapping[str, Any]) -> Iterator[tuple[str, JsonValue]]:
    for key, item in value.items():
        if _is_beside(key):
            continue
        if isinstance(item, Mapping):
            yield from _flat(f"{prefix}.{key}", item)
        elif item is not None:
            yield f"{prefix}.{key}", item


def _shown(value: JsonValue) -> str:
    return "not set" if value is None else one_line(REDACTOR.text(json.dumps(value)), _SHOWN)
