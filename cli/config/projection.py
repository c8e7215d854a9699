"""From the shapes that users write to the one shape that is merged.

A user writes ``environments.docker.image`` or ``--env-params '{"image": …}'``; merged is
``environment.params.image``. Parameters stand beside the keys of the environment's own; synonyms
get one name here, so that a later layer replaces an earlier one whichever name each of them uses.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import JsonValue

from ...contracts.errors import ConfigurationError
from .documents import Document
from .places import Layer, Origin, Path, dotted, find_origin, walk
from .schema import ENVIRONMENT_KEYS

SECTIONS = {"benchmark": "benchmarks", "harness": "harnesses", "environment": "environments"}
"""Kinds of components and their sections in a configuration file."""

SYNONYMS: dict[Path, str] = {
    ("environment", "evaluation_network_policy"): "verifier_network_policy",
    ("execution", "runresult_collect_timeout_seconds"): "harness_result_timeout_seconds",
}
RESERVED = {
    "id": "the id is the name of the section",
    "params": "parameters stand directly in the section",
}


def file_layer(document: Document, ids: Mapping[str, str]) -> Layer:
    """The part of a configuration file that concerns a run of the components ``ids``."""
    projector = _Projector(document.file, document.lines)
    for kind, section in SECTIONS.items():
        parameters = _map_at(document.data, section, ids[kind])
        if parameters is not None:
            projector.put_component(kind, parameters, (section, ids[kind]))
    for section in ("model", "execution", "runtime"):
        projector.put_map((section,), _map_at(document.data, section) or {}, (section,))
    if "task_concurrency" in document.data:
        path: Path = ("execution", "task_concurrency")
        projector.put(path, document.data["task_concurrency"], ("task_concurrency",))
    return projector.layer


def request_layer(document: Document, written: Path, values: Mapping[str, JsonValue]) -> Layer:
    """A launch file's ``defaults`` or ``requests[i]``, found at ``written`` in its document."""
    projector = _Projector(document.file, document.lines)
    for kind in SECTIONS:
        parameters = _map_at(values, kind)
        if parameters is not None:
            if "id" in parameters:
                projector.put((kind, "id"), parameters.pop("id"), (*written, kind, "id"))
            projector.put_component(kind, parameters, (*written, kind))
    for section in ("model", "execution", "runtime", "output"):
        projector.put_map((section,), _map_at(values, section) or {}, (*written, section))
    return projector.layer


def value_layer(source: str, path: Path, value: JsonValue) -> Layer:
    """The layer of one flag or argument. ``path`` may be a component's, with flat parameters."""
    projector = _Projector(source, {})
    if len(path) == 1 and path[0] in SECTIONS and isinstance(value, dict):
        projector.put_component(str(path[0]), value, ())
    elif isinstance(value, dict):
        projector.put_map(path, value, ())
    else:
        projector.put(path, value, ())
    return projector.layer


def _map_at(data: Mapping[str, JsonValue], *keys: str) -> dict[str, JsonValue] | None:
    """The map below ``keys``; a section without content (null) is an empty map."""
    current: JsonValue = dict(data)
    for key in keys:
        if not isinstance(current, dict) or key not in current:
            return None
        current = current[key] or {}
    return dict(current) if isinstance(current, dict) else None


class _Projector:
    """Puts values into a layer and notes where each of them was written."""

    def __init__(self, source: str, lines: Mapping[Path, int]) -> None:
        self.layer = Layer(source)
        self._source = source
        self._lines = lines

    def put_component(self, kind: str, values: dict[str, JsonValue], written: Path) -> None:
        self.layer.places.setdefault((kind,), self._origin(written))
        for key, value in values.items():
            if key in RESERVED:
                place = self._origin((*written, key)).describe()
                raise ConfigurationError(f"{place}: key {key!r} does not belong here: {RESERVED[key]}")
            if kind == "environment" and key in ENVIRONMENT_KEYS:
                self.put((kind, key), value, (*written, key))
            else:
                self.put((kind, "params", key), value, (*written, key))

    def put_map(self, path: Path, values: dict[str, JsonValue], written: Path) -> None:
        for key, value in values.items():
            self.put((*path, key), value, (*written, key))

    def put(self, path: Path, value: JsonValue, written: Path) -> None:
        name = SYNONYMS.get(path)
        target = (*path[:-1], name) if name else path
        parent = self.layer.data
        for part in target[:-1]:
            child = parent.setdefault(str(part), {})
            assert isinstance(child, dict)
            parent = child
        if target[-1] in parent:
            other = find_origin(self.layer.places, target)
            assert other is not None
            raise ConfigurationError(
                f"{self._origin(written).describe()}: {dotted(other.path)!r} is the same setting; keep one of the two"
            )
        parent[str(target[-1])] = value
        for below, _ in walk(value):
            self.layer.places[(*target, *below)] = self._origin((*written, *below))

    def _origin(self, written: Path) -> Origin:
        return Origin(self._source, self._lines.get(written), written)
