"""Local paths among component parameters, made absolute before they travel to a worker."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path as FilePath

from pydantic import BaseModel

from ...contracts.component import local_path_fields
from ...contracts.request import NO_HARNESS, ModelSpec
from ...plugins.models.params import ModelParams
from ...plugins.registry import ComponentKind, Registry
from .places import Path
from .schema import EffectiveConfig

KINDS = (ComponentKind.BENCHMARK, ComponentKind.HARNESS, ComponentKind.ENVIRONMENT)


def _model(config: EffectiveConfig, folder_of: Callable[[Path], FilePath]) -> ModelSpec:
    params = dict(config.model.params)
    for name in local_path_fields(ModelParams):
        value = params.get(name)
        if isinstance(value, str) and value:
            params[name] = str(folder_of(("model", "params", name)) / FilePath(value).expanduser())
    return config.model.model_copy(update={"params": params})


def absolute_paths(
    config: EffectiveConfig, registry: Registry, folder_of: Callable[[Path], FilePath]
) -> EffectiveConfig:
    """A copy in which each parameter declared as ``LocalPath`` is absolute.

    ``folder_of`` tells, for the place of a value in the configuration, what it is relative to.
    """
    update: dict[str, BaseModel] = {}
    for kind in KINDS:
        spec = getattr(config, kind.value)
        if kind is ComponentKind.HARNESS and spec.id == NO_HARNESS:
            continue
        params = dict(spec.params)
        for name in local_path_fields(registry.get(kind, spec.id).Params):
            value = params.get(name)
            if isinstance(value, str) and value:
                folder = folder_of((kind.value, "params", name))
                params[name] = str(folder / FilePath(value).expanduser())
        update[kind.value] = spec.model_copy(update={"params": params})
    update["model"] = _model(config, folder_of)
    return config.model_copy(update=update)
