"""The model endpoints that a request depends on, found without asking the authors of its components."""

from __future__ import annotations

from typing import get_args

from pydantic import BaseModel, ValidationError

from ..contracts.benchmark import HarnessFreeBenchmark
from ..contracts.endpoints import RequestEndpoints
from ..contracts.errors import ConfigurationError
from ..contracts.request import ModelSpec
from ..plugins.models.endpoint import endpoint_of
from .services import RequestComponents


def request_endpoints(components: RequestComponents) -> RequestEndpoints:
    """The endpoint of the evaluated model, and that of the judge.

    A judge is the only parameter of a benchmark that is a ``ModelSpec``, whatever it is called.
    """
    request = components.request
    judges = [
        _model_in(request.benchmark.params.get(name)) for name in _model_fields(components.benchmark.Params)
    ]
    given = [judge for judge in judges if judge is not None]
    return RequestEndpoints(
        model=_endpoint(request.model) if _uses_model(components) else "",
        judge=_endpoint(given[0]) if len(given) == 1 else "",
    )


def _uses_model(components: RequestComponents) -> bool:
    if components.harness is not None:
        return components.harness.uses_model
    return isinstance(components.benchmark, HarnessFreeBenchmark) and components.benchmark.uses_model


def _model_fields(params: type[BaseModel]) -> list[str]:
    return [name for name, field in params.model_fields.items() if _is_model(field.annotation)]


def _is_model(annotation: object) -> bool:
    if isinstance(annotation, type):
        return issubclass(annotation, ModelSpec)
    return any(_is_model(item) for item in get_args(annotation))


def _model_in(value: object) -> ModelSpec | None:
    """As it was written, with the reference of its key: a component itself is given the key."""
    try:
        return None if value is None else ModelSpec.model_validate(value)
    except ValidationError:
        return None  # the benchmark reads it in a way of its own


def _endpoint(spec: ModelSpec) -> str:
    try:
        return endpoint_of(spec)
    except ConfigurationError:
        return ""  # whoever calls this model chooses the protocol otherwise
