"""Validation of configuration files and of the merged whole. Every error says what to change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from pydantic import BaseModel, ValidationError

from ...contracts.errors import ConfigurationError
from ...contracts.request import NO_HARNESS
from ...plugins.registry import ComponentKind, Registry
from .documents import Document
from .merge import Merged
from .places import Origin, Path, Tree, dotted
from .problems import file_problems, join_problems, nearest, problems_of
from .projection import SECTIONS
from .schema import ENVIRONMENT_KEYS, ConfigFile, EffectiveConfig


@dataclass(frozen=True)
class Places:
    """Names the place of a value: its file, line and path there, or its flag."""

    data: Mapping[str, object]
    origins: Mapping[Path, Origin]

    def describe(self, path: Path) -> str:
        """The place of the value at ``path``; parts that are not in the data are left out."""
        path = self._existing(path)
        for length in range(len(path), -1, -1):
            origin = self.origins.get(path[:length])
            if origin is not None:
                whole = (*origin.path, *path[length:])
                return Origin(origin.source, origin.line, whole).describe()
        return self._describe_by_content(path)

    def _describe_by_content(self, path: Path) -> str:
        """The place of a map that several layers may have contributed to."""
        below = {place: origin for place, origin in self.origins.items() if place[: len(path)] == path}
        sources = list(dict.fromkeys(origin.source for origin in below.values()))
        if len(sources) != 1:
            name = dotted(path) or "configuration"
            return f"{name} (from {', '.join(sources)})" if sources else name
        place, origin = next(iter(below.items()))
        own = origin.path[: max(len(origin.path) - (len(place) - len(path)), 0)]
        return Origin(origin.source, origin.line, own).describe()

    def _existing(self, path: Path) -> Path:
        current: object = self.data
        for length, part in enumerate(path):
            if isinstance(current, Mapping) and part in current:
                current = current[part]
            elif isinstance(current, list) and isinstance(part, int) and part < len(current):
                current = current[part]
            else:
                return path[:length]
        return path


def check_file(document: Document) -> None:
    """Refuse unknown keys and values of a wrong type in one file, wherever they stand.

    Raises:
        ConfigurationError: names file, line, key and the nearest valid name.
    """
    origins = {path: Origin(document.file, line, path) for path, line in document.lines.items()}
    origins.setdefault((), Origin(document.file))
    places = Places(document.data, origins)
    try:
        ConfigFile.model_validate(without_empty_sections(document.data))
    except ValidationError as error:
        problems = file_problems(error, ConfigFile, places.describe)
        if problems:
            raise ConfigurationError(join_problems(problems)) from None


def without_empty_sections(data: Tree) -> Tree:
    """``data`` without sections that hold nothing: YAML reads ``execution:`` alone as null."""
    kept: Tree = {}
    for key, value in data.items():
        if value is None and key in ConfigFile.model_fields:
            continue
        if key in SECTIONS.values() and isinstance(value, dict):
            kept[key] = {name: {} if item is None else item for name, item in value.items()}
        else:
            kept[key] = value
    return kept


def check_component_ids(documents: list[Document], registry: Registry) -> Iterator[str]:
    """A problem for each section of a file that is named after no component."""
    for document in documents:
        for kind, section in SECTIONS.items():
            named = document.data.get(section)
            known = registry.ids(ComponentKind(kind))
            for name in named if isinstance(named, dict) else ():
                if name not in known:
                    origin = Origin(document.file, document.lines.get((section, name)), (section, name))
                    yield f"{origin.describe()}: unknown {kind} {name!r}{nearest(name, known)}"


def check_effective(tree: Tree, places: Places) -> EffectiveConfig:
    """The merged whole as a model. Raises ``ConfigurationError``."""
    try:
        return EffectiveConfig.model_validate(tree)
    except ValidationError as error:
        problems = problems_of(error, EffectiveConfig, places.describe)
        raise ConfigurationError(join_problems(problems)) from None


def check_components(config: EffectiveConfig, registry: Registry, places: Places) -> None:
    """Every named component exists, and its parameters are valid.

    Raises:
        UnknownComponentError: no such component; names the nearest ones.
        PluginError: it cannot be imported.
        ConfigurationError: a parameter is wrong.
    """
    # All names before any parameter: a parameter may be wrong because the name is.
    for kind in SECTIONS:
        if (name := getattr(config, kind).id) != NO_HARNESS or kind != "harness":
            registry.get(ComponentKind(kind), name)
    for kind in SECTIONS:
        spec = getattr(config, kind)
        if kind == "harness" and spec.id == NO_HARNESS:
            if spec.params:
                place = places.describe(("harness", "params", next(iter(spec.params))))
                raise ConfigurationError(f"{place}: harness 'none' takes no parameters")
            continue
        params_model: type[BaseModel] = registry.get(ComponentKind(kind), spec.id).Params
        beside = sorted(ENVIRONMENT_KEYS) if kind == "environment" else ()
        _check_params(spec.params, params_model, (kind, "params"), places, _owner(kind, spec.id), beside)
    for recipe in config.execution.enabled_recipes:
        registry.get(ComponentKind.RECIPE, recipe)
    analysis = config.execution.analysis_params
    for analyzer in [*(analysis.analyzers or ()), *analysis.params]:
        registry.get(ComponentKind.ANALYZER, analyzer)
    for analyzer, values in analysis.params.items():
        params_model = registry.get(ComponentKind.ANALYZER, analyzer).Params
        _check_params(
            values,
            params_model,
            ("execution", "analysis_params", "params", analyzer),
            places,
            f"analyzer {analyzer!r}",
        )
    _check_providers(config, registry, places)


def _check_params(
    values: Tree, model: type[BaseModel], path: Path, places: Places, owner: str, beside: Iterable[str] = ()
) -> None:
    """``owner`` says whose parameters they are and where they are given."""
    try:
        model.model_validate(values)
    except ValidationError as error:

        def describe(location: Path) -> str:
            return places.describe((*path, *location)) if location else f"parameters of {owner}"

        raise ConfigurationError(join_problems(problems_of(error, model, describe, beside))) from None


def _owner(kind: str, component_id: str) -> str:
    flag = "--env-params" if kind == "environment" else f"--{kind}-params"
    return f"{kind} {component_id!r} ({flag}, or section {SECTIONS[kind]}.{component_id})"


def _check_providers(config: EffectiveConfig, registry: Registry, places: Places) -> None:
    known = registry.ids(ComponentKind.ENVIRONMENT)
    for key in ("provider_limits", "env_open_qps"):
        for name in getattr(config.runtime, key):
            if name not in known:
                place = places.describe(("runtime", key, name))
                raise ConfigurationError(f"{place}: unknown environment {name!r}{nearest(name, known)}")


def places_of(merged: Merged) -> Places:
    """The places of merged values."""
    return Places(merged.data, merged.places)
