"""The registry of components. Built-in and third-party extensions enter by the same door.

An entry point of group ``agentcompass.plugins`` names a function ``register(registry)``, which
calls ``registry.benchmark("my_id", "my_package.module:MyBenchmark")`` and so on. Components are
given as dotted paths and imported when first used, so that a heavy or broken one costs only its
own users.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from typing import Any, cast

from pydantic import BaseModel, ValidationError

from ..contracts.analyzer import Analyzer
from ..contracts.benchmark import Benchmark
from ..contracts.component import Component
from ..contracts.environment import Environment
from ..contracts.errors import ConfigurationError, PluginError, UnknownComponentError
from ..contracts.harness import Harness
from ..contracts.recipe import Recipe
from .params import describe_validation_error
from .recipe_files import find_recipes

ENTRY_POINT_GROUP = "agentcompass.plugins"


class ComponentKind(StrEnum):
    """The kinds of components, as users call them."""

    BENCHMARK = "benchmark"
    HARNESS = "harness"
    ENVIRONMENT = "environment"
    RECIPE = "recipe"
    ANALYZER = "analyzer"


_BASES: dict[ComponentKind, type[Component[Any]]] = {
    ComponentKind.BENCHMARK: Benchmark,
    ComponentKind.HARNESS: Harness,
    ComponentKind.ENVIRONMENT: Environment,
    ComponentKind.RECIPE: Recipe,
    ComponentKind.ANALYZER: Analyzer,
}

Target = str | type[Component[Any]]


@dataclass(frozen=True)
class Registration:
    """One registered component and who registered it."""

    kind: ComponentKind
    id: str
    target: Target
    plugin: str

    @property
    def where(self) -> str:
        """The dotted path, for messages."""
        if isinstance(self.target, str):
            return self.target
        return f"{self.target.__module__}:{self.target.__qualname__}"


@dataclass
class Registry:
    """Components by kind and id, in order of registration."""

    broken: list[str] = field(default_factory=list)
    """One line for each plugin that could not be loaded; shown as a warning, and when its id is asked for."""
    _items: dict[tuple[ComponentKind, str], Registration] = field(default_factory=dict)
    _plugin: str = "?"

    def benchmark(self, component_id: str, target: Target) -> None:
        """Register a benchmark: a class or ``"package.module:Class"``."""
        self._add(ComponentKind.BENCHMARK, component_id, target)

    def harness(self, component_id: str, target: Target) -> None:
        """Register a harness."""
        self._add(ComponentKind.HARNESS, component_id, target)

    def environment(self, component_id: str, target: Target) -> None:
        """Register an environment."""
        self._add(ComponentKind.ENVIRONMENT, component_id, target)

    def recipe(self, component_id: str, target: Target) -> None:
        """Register a recipe."""
        self._add(ComponentKind.RECIPE, component_id, target)

    def analyzer(self, component_id: str, target: Target) -> None:
        """Register an analyzer."""
        self._add(ComponentKind.ANALYZER, component_id, target)

    def _add(self, kind: ComponentKind, component_id: str, target: Target) -> None:
        known = self._items.get((kind, component_id))
        if known is not None:
            raise PluginError(
                f"{kind} {component_id!r} of plugin {self._plugin!r} is already registered "
                f"by {known.plugin!r} ({known.where}); one of the two needs another id"
            )
        if not isinstance(target, str) and not issubclass(target, _BASES[kind]):
            raise PluginError(f"{kind} {component_id!r} is not a subclass of {_BASES[kind].__name__}")
        self._items[kind, component_id] = Registration(kind, component_id, target, self._plugin)

    def load_plugin(self, name: str, register: Callable[[Registry], None]) -> None:
        """Let a plugin register its components. Raises ``PluginError`` when it cannot."""
        self._plugin = name
        before = dict(self._items)
        try:
            register(self)
        except Exception as error:  # third-party code may raise anything; it is named and left out
            self._items = before
            if isinstance(error, PluginError):
                raise
            raise PluginError(
                f"plugin {name!r} could not be registered: {type(error).__name__}: {error}"
            ) from error
        finally:
            self._plugin = "?"

    def ids(self, kind: ComponentKind) -> list[str]:
        """The ids of a kind, in order of registration."""
        return [item.id for item in self.registrations(kind)]

    def registrations(self, kind: ComponentKind) -> Iterator[Registration]:
        """The registrations of a kind, in order."""
        return (item for (item_kind, _), item in self._items.items() if item_kind == kind)

    def get(self, kind: ComponentKind, component_id: str) -> type[Component[Any]]:
        """The class. Raises ``UnknownComponentError``, or ``PluginError`` when its import fails."""
        item = self._items.get((kind, component_id))
        if item is None:
            raise UnknownComponentError(self._unknown(kind, component_id))
        if not isinstance(item.target, str):
            return item.target
        return _import_component(item)

    def get_benchmark(self, component_id: str) -> type[Benchmark[Any]]:
        """The class of a benchmark."""
        return cast("type[Benchmark[Any]]", self.get(ComponentKind.BENCHMARK, component_id))

    def get_harness(self, component_id: str) -> type[Harness[Any, Any]]:
        """The class of a harness."""
        return cast("type[Harness[Any, Any]]", self.get(ComponentKind.HARNESS, component_id))

    def get_environment(self, component_id: str) -> type[Environment[Any]]:
        """The class of an environment."""
        return cast("type[Environment[Any]]", self.get(ComponentKind.ENVIRONMENT, component_id))

    def get_recipe(self, component_id: str) -> type[Recipe[Any]]:
        """The class of a recipe."""
        return cast("type[Recipe[Any]]", self.get(ComponentKind.RECIPE, component_id))

    def get_analyzer(self, component_id: str) -> type[Analyzer[Any]]:
        """The class of an analyzer."""
        return cast("type[Analyzer[Any]]", self.get(ComponentKind.ANALYZER, component_id))

    def validate_params(self, kind: ComponentKind, component_id: str, params: dict[str, Any]) -> BaseModel:
        """The component's parameter model. Raises ``ConfigurationError`` that names the parameter."""
        component = self.get(kind, component_id)
        try:
            return component.Params.model_validate(params)
        except ValidationError as error:
            place = f"parameters of {kind} {component_id!r}"
            raise ConfigurationError(describe_validation_error(error, component.Params, place)) from None

    def _unknown(self, kind: ComponentKind, component_id: str) -> str:
        known = self.ids(kind)
        near = difflib.get_close_matches(component_id, known, n=3, cutoff=0.5)
        text = f"unknown {kind} {component_id!r}"
        if near:
            text += f"; did you mean {' or '.join(map(repr, near))}?"
        elif known:
            text += f"; available: {', '.join(sorted(known))}"
        if self.broken:
            text += f" (not loaded: {'; '.join(self.broken)})"
        return text


def _import_component(item: Registration) -> type[Component[Any]]:
    assert isinstance(item.target, str)
    module_name, _, attribute = item.target.partition(":")
    try:
        found = getattr(importlib.import_module(module_name), attribute)
    except Exception as error:  # a plugin's module may raise anything while it is imported
        raise PluginError(
            f"{item.kind} {item.id!r} ({item.where}, plugin {item.plugin!r}) cannot be imported: "
            f"{type(error).__name__}: {error}"
        ) from error
    base = _BASES[item.kind]
    if not (isinstance(found, type) and issubclass(found, base)):
        raise PluginError(f"{item.kind} {item.id!r} ({item.where}) is not a subclass of {base.__name__}")
    return found


def load_registry(recipe_dirs: Iterable[str] = (), points: Iterable[EntryPoint] | None = None) -> Registry:
    """Load every installed plugin and the recipes of ``recipe_dirs``.

    A plugin that cannot be loaded is named in ``Registry.broken`` and does not stop the others.
    Raises ``PluginError`` for a recipe directory, which the user asked for by name.
    """
    registry = Registry()
    found = entry_points(group=ENTRY_POINT_GROUP) if points is None else points
    # The built-ins first: whoever takes one of their ids is named as the second.
    for point in sorted(found, key=lambda item: (not item.value.startswith("agentcompass."), item.name)):
        try:
            register = point.load()
        except Exception as error:  # third-party code may raise anything while it is imported
            registry.broken.append(f"plugin {point.name!r} ({point.value}): {type(error).__name__}: {error}")
            continue
        try:
            registry.load_plugin(point.name, register)
        except PluginError as error:
            registry.broken.append(str(error))
    for directory in recipe_dirs:
        for file, recipes in find_recipes(directory):
            registry.load_plugin(str(file), partial(_register_all, recipes))
    return registry


def _register_all(recipes: list[type[Recipe[Any]]], registry: Registry) -> None:
    for recipe in recipes:
        registry.recipe(recipe.id, recipe)
