"""The effective configuration as a list of values with their origins, secrets masked."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path as FilePath

from pydantic import JsonValue

from ...contracts.launch import LaunchSpec
from ...contracts.secrets import MASK, is_secret_reference, is_sensitive_name
from .checks import check_file, without_empty_sections
from .documents import read_document
from .expand import whole_variable
from .files import config_files
from .merge import merge_layers
from .places import DEFAULT, Layer, Origin, Path, dotted, find_origin
from .resolve import ResolvedRun
from .schema import ConfigFile
from .secret_store import UNSTORED


@dataclass(frozen=True)
class ShownValue:
    """One value as ``config show`` prints it."""

    path: str
    value: JsonValue
    origin: str


def effective_values(resolved: ResolvedRun) -> list[ShownValue]:
    """Every value of the request and of the launch's runtime, defaults included."""
    request = resolved.request.model_dump(mode="json", exclude={"metadata"})
    request["runtime"] |= resolved.runtime.model_dump(mode="json")
    return [
        ShownValue(dotted(path), mask(path, value), str(_origin(path, resolved.origins)))
        for path, value in _leaves(request, ())
    ]


def file_values(
    given: Sequence[str] = (), cwd: FilePath | None = None, env: Mapping[str, str] = os.environ
) -> list[ShownValue]:
    """The configuration files that apply, merged; variables are shown and not expanded.

    Raises:
        ConfigurationError: a file is missing or wrong.
    """
    layers = []
    for file in config_files((cwd or FilePath.cwd()).absolute(), env, given):
        document = read_document(file)
        check_file(document)
        places = {path: Origin(document.file, line, path) for path, line in document.lines.items()}
        places.pop((), None)
        layers.append(Layer(document.file, without_empty_sections(document.data), places))
    defaults = ConfigFile().model_dump(mode="json", include={"execution", "runtime"})
    if any("task_concurrency" in layer.data for layer in layers):
        del defaults["execution"]["task_concurrency"]  # written at the top of a file, it is the same setting
    merged = merge_layers([Layer(DEFAULT.source, defaults), *layers])
    return [
        ShownValue(dotted(path), mask(path, value), str(find_origin(merged.places, path) or DEFAULT))
        for path, value in _leaves(merged.data, ())
        if path
    ]


def masked_spec(spec: LaunchSpec, *, defaults: bool = True) -> dict[str, JsonValue]:
    """A resolved launch with secrets masked; with or without the values that are defaults."""
    hidden = {"requests": {"__all__": {"metadata"}}}
    values = spec.model_dump(mode="json", exclude=hidden, exclude_defaults=not defaults)
    values["requests"] = [
        {"name": request.metadata.request_name, **dumped}
        for request, dumped in zip(spec.requests, values["requests"], strict=True)
    ]
    return {key: _masked((key,), value) for key, value in values.items()}


def spec_values(spec: LaunchSpec) -> list[tuple[str, JsonValue]]:
    """The values of a resolved launch that are not defaults, by dotted path, secrets masked."""
    return [(dotted(path), value) for path, value in _leaves(masked_spec(spec, defaults=False), ())]


def _masked(path: Path, value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return {key: _masked((*path, key), item) for key, item in value.items()}
    if isinstance(value, list):
        return [_masked((*path, index), item) for index, item in enumerate(value)]
    return mask(path, value)


def mask(path: Path, value: JsonValue) -> JsonValue:
    """``value``, or a mask when its field holds secrets; references are no secrets and stay."""
    if isinstance(value, list):
        return [mask(path, item) for item in value]
    if not isinstance(value, str) or not value:
        return value
    variable = whole_variable(value)
    if variable is not None and variable.default is None:
        return value
    sensitive = any(isinstance(part, str) and is_sensitive_name(part) for part in path)
    if value == UNSTORED or (sensitive and not is_secret_reference(value)):
        return MASK
    return value


def _leaves(value: JsonValue, path: Path) -> Iterator[tuple[Path, JsonValue]]:
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _leaves(item, (*path, key))
    elif isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
        for index, item in enumerate(value):
            yield from _leaves(item, (*path, index))
    else:
        yield path, value


def _origin(path: Path, origins: dict[str, Origin]) -> Origin:
    """The origin of the value, or of the map or list that it was given in."""
    for length in range(len(path), 0, -1):
        found = origins.get(dotted(path[:length]))
        if found is not None:
            return found
    return DEFAULT
