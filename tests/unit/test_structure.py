"""The structure of the project: who imports whom, what is packaged, what activities exist."""

from __future__ import annotations

import ast
import inspect
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_type_hints

from temporalio import activity

import agentcompass
from agentcompass.activities.registration import activity_methods
from agentcompass.contracts.activities import ALL_ACTIVITIES

ROOT = Path(agentcompass.__file__).resolve().parent

ALLOWED = {
    "contracts": {"contracts"},
    "workflows": {"workflows", "contracts"},
    "plugins": {"plugins", "contracts"},
    "activities": {"activities", "plugins", "contracts"},
    "cli": {"cli", "worker", "workflows", "activities", "plugins", "contracts"},
    "worker": {"cli", "workflows", "activities", "plugins", "contracts"},
}
"""cli, worker -> workflows, activities -> plugins -> contracts. The package itself (its version) is free."""


def sources() -> list[Path]:
    files = [ROOT / "worker.py"]
    for folder in ("contracts", "workflows", "plugins", "activities", "cli"):
        files += sorted((ROOT / folder).rglob("*.py"))
    return files


def imported_folders(file: Path) -> set[str]:
    """Our top-level folders that a file imports, relatively or by the package's name."""
    package = ["agentcompass", *file.relative_to(ROOT).with_suffix("").parts[:-1]]
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = [*base, *(node.module.split(".") if node.module else [])]
            names = [".".join([*module, alias.name]) for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            parts = name.split(".")
            if parts[0] == "agentcompass" and len(parts) > 1 and parts[1] in ALLOWED:
                found.add(parts[1])
    return found


def test_imports_point_in_one_direction() -> None:
    wrong = [
        f"{file.relative_to(ROOT)} imports {folder}"
        for file in sources()
        for folder in imported_folders(file) - ALLOWED[file.relative_to(ROOT).with_suffix("").parts[0]]
    ]
    assert wrong == []


def test_plugins_and_contracts_know_nothing_of_temporal() -> None:
    knowing = [
        str(file.relative_to(ROOT))
        for file in sources()
        if file.relative_to(ROOT).parts[0] in ("contracts", "plugins")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if (isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "temporalio")
        or (
            isinstance(node, ast.Import)
            and any(alias.name.split(".")[0] == "temporalio" for alias in node.names)
        )
    ]
    assert knowing == []


def test_every_folder_with_code_is_packaged() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    declared = set(project["tool"]["setuptools"]["packages"])
    files = {path.parent for path in ROOT.glob("plugins/**/*.jsonl")} | {
        path.parent for path in ROOT.glob("plugins/**/*.yaml")
    }
    folders = {file.parent for file in sources()} | files
    assert declared == {".".join(["agentcompass", *folder.relative_to(ROOT).parts]) for folder in folders}


def test_every_activity_stub_has_an_implementation_of_its_types() -> None:
    settings = SimpleNamespace(private=True, task_queue="q", host_queue="q")
    services: Any = SimpleNamespace(client=None, settings=settings)
    implemented = {}
    for method in activity_methods(services):
        definition = activity._Definition.must_from_callable(method)
        hints = get_type_hints(inspect.unwrap(method.__func__))
        implemented[definition.name] = (hints["input"], hints["return"])
    assert implemented == {stub.name: (stub.input, stub.output) for stub in ALL_ACTIVITIES}
