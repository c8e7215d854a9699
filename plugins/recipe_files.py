"""External recipes: Python files in a directory that the user trusts (``--recipe-dir``)."""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from ..contracts.errors import PluginError
from ..contracts.recipe import Recipe


def find_recipes(directory: str) -> Iterator[tuple[Path, list[type[Recipe[Any]]]]]:
    """The ``*.py`` files of ``directory``, sorted, each with the :class:`Recipe` subclasses it defines.

    Raises ``PluginError`` that names the file when one cannot be imported or has no id.
    """
    path = Path(directory).expanduser()
    if not path.is_dir():
        raise PluginError(f"recipe directory {directory!r} does not exist")
    for file in sorted(path.glob("*.py")):
        yield file, _recipes_of(_import_file(file))


def _import_file(file: Path) -> ModuleType:
    # The name depends on the path, so that two directories may hold files of the same name.
    digest = hashlib.sha256(str(file.resolve()).encode()).hexdigest()[:12]
    spec = importlib.util.spec_from_file_location(f"agentcompass_recipes_{digest}", file)
    if spec is None or spec.loader is None:
        raise PluginError(f"recipe file {file} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # the user's file may raise anything
        raise PluginError(f"recipe file {file}: {type(error).__name__}: {error}") from error
    return module


def _recipes_of(module: ModuleType) -> list[type[Recipe[Any]]]:
    found = [
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, Recipe)
        and not inspect.isabstract(value)
        and value.__module__ == module.__name__
    ]
    for recipe in found:
        if not getattr(recipe, "id", ""):
            raise PluginError(f"recipe {recipe.__name__} in {module.__file__} has no id")
    return found
