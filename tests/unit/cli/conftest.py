"""A registry of small components, and resolving configurations against it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic import Field

from agentcompass.cli.config import ResolvedRun, RunArguments, leave_literal, resolve_run
from agentcompass.contracts import Analyzer, Benchmark, Environment, Harness, Recipe
from agentcompass.contracts.base import Contract
from agentcompass.plugins.registry import Registry


class QuizParams(Contract):
    limit: int | None = None
    tags: list[str] = Field(default_factory=list)
    options: dict[str, Any] = Field(default_factory=dict)
    judge_model: dict[str, Any] = Field(default_factory=dict)


class ChatParams(Contract):
    max_steps: int = 10
    max_tokens: int = 100
    extra_headers: dict[str, str] = Field(default_factory=dict)


class BoxParams(Contract):
    region: str = "here"
    api_key: str = ""


class AnalyzerParams(Contract):
    depth: int = 1


class FileParams(Contract):
    path: str


class FileQuiz(Benchmark[FileParams]):
    id = "dataset"
    Params = FileParams


class Quiz(Benchmark[QuizParams]):
    id = "quiz"
    description = "Questions"
    Params = QuizParams


class Chat(Harness[ChatParams, Any]):
    id = "chat"
    Params = ChatParams


class Box(Environment[BoxParams]):
    id = "box"
    Params = BoxParams


class Host(Environment[Any]):
    id = "host_process"


class Bigger(Recipe[Any]):
    id = "bigger"


class Errors(Analyzer[AnalyzerParams]):
    id = "errors"
    Params = AnalyzerParams


def small_registry(recipe_dirs: Sequence[str] = ()) -> Registry:
    registry = Registry()
    registry.benchmark("quiz", Quiz)
    registry.benchmark("dataset", FileQuiz)
    registry.harness("chat", Chat)
    registry.environment("host_process", Host)
    registry.environment("box", Box)
    registry.recipe("bigger", Bigger)
    registry.analyzer("errors", Errors)
    return registry


@dataclass
class Project:
    """A folder with configuration files, and a home, that runs are resolved in."""

    root: Path
    env: dict[str, str]

    @property
    def folder(self) -> Path:
        return self.root / "project" / "deep"

    def write(self, name: str, text: str) -> Path:
        file = self.root / "project" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return file

    def write_user(self, text: str) -> Path:
        return self.write("../home/.config/agentcompass/config.yaml", text).resolve()

    def resolve(
        self,
        store_literal: Callable[[str], str] = leave_literal,
        variables: Mapping[str, str] | None = None,
        environment: str | None = "box",
        **arguments: Any,
    ) -> ResolvedRun:
        """A run of quiz with chat, with ``variables`` in the process's environment."""
        given = {"benchmark": "quiz", "harness": "chat", "model": "m", "env": environment, **arguments}
        return resolve_run(
            RunArguments(**given),
            store_literal=store_literal,
            cwd=self.folder,
            env={**self.env, **(variables or {})},
            registry_loader=small_registry,
        )


@pytest.fixture
def project(tmp_path: Path) -> Project:
    (tmp_path / "project" / "deep").mkdir(parents=True)
    return Project(tmp_path, {"HOME": str(tmp_path / "home")})


@pytest.fixture
def registry() -> Registry:
    return small_registry()
