"""From a task folder to the facts that hooks need of it, for a whole task or a step of one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ....contracts.request import EnvironmentSetup, ResourceRequirements
from .config import EnvironmentTable, StepTable, TaskConfig
from .facts import FolderPart, HarborFacts, StepFacts
from .folder import InvalidTaskError, TaskFolder
from .params import HarborParams
from .sources import Candidate

_SCRIPT = "test.sh"
_SETUP = "setup.sh"


@dataclass(frozen=True)
class Reading:
    """A task folder that is read. ``InvalidTaskError`` of any method says what is wrong with it."""

    candidate: Candidate
    params: HarborParams
    compose: str
    digest: str
    _parts: dict[str, str] = field(default_factory=dict)

    @property
    def folder(self) -> TaskFolder:
        """Where it is."""
        return self.candidate.folder

    def part(self, path: str) -> FolderPart | None:
        """A folder of the task, ``None`` where it is not there or empty."""
        if not self.folder.has(path) or not self.folder.entries(path):
            return None
        if path not in self._parts:  # tests/ is that of every step
            self._parts[path] = self.folder.digest([path])
        return FolderPart(path=path, digest=self._parts[path])

    def facts(self, config: TaskConfig, step: StepTable | None, *, first: bool = False) -> HarborFacts:
        """``config`` is what holds in the step, or, without one, the whole file."""
        table, verifier = config.environment, config.verifier
        own = f"steps/{step.name}/" if step else ""
        image, context = self._verifier_image(config, step)
        bundled = bool(image or context)
        script = f"{own}tests/{_SCRIPT}"
        if step and not self.folder.has(script):
            script = f"tests/{_SCRIPT}"
        uploads = not bundled and self.folder.has(script)
        if not uploads and not bundled and not config.steps:
            raise InvalidTaskError(f"{own}tests/{_SCRIPT} is missing")
        tests = [self.part("tests"), self.part(f"{own}tests") if step else None]
        setup = verifier.environment or table
        return HarborFacts(
            source=self.candidate.source,
            digest=self.digest,
            tests=[part for part in tests if part is not None] if uploads else [],
            test_script=script,
            solution=self._solution(own),
            builds_image=table.docker_image is None and self.folder.has("environment/Dockerfile"),
            compose_file=self.compose,
            setup=_setup(table.docker_image, table, table),
            separate_verifier=verifier.separate,
            verifier_setup=_setup(image, setup, table) if bundled else None,
            verifier_context=context,
            verifier_resources=resources_of(verifier.environment, self.params)
            if verifier.environment
            else None,
            verifier_user=user_of(verifier.user),
            uploads_tests=uploads,
            agent_user=user_of(config.agent.user),
            healthcheck=table.healthcheck,
            reward_strategy=config.multi_step_reward_strategy or "mean",
            step=self._step(step, own, first=first) if step else None,
        )

    def _solution(self, own: str) -> FolderPart | None:
        """That of the step, else that of the task."""
        places = dict.fromkeys([f"{own}solution", "solution"])
        return next((self.part(path) for path in places if self.folder.has(f"{path}/solve.sh")), None)

    def _step(self, step: StepTable, own: str, *, first: bool) -> StepFacts:
        return StepFacts(
            first=first,
            workdir=self.part(f"{own}workdir"),
            setup_script=self.folder.has(f"{own}workdir/{_SETUP}"),
            healthcheck=step.healthcheck,
            thresholds=step.thresholds,
        )

    def _verifier_image(self, config: TaskConfig, step: StepTable | None) -> tuple[str | None, str]:
        """The image of a separate verifier that brings its tests, or the folder that one is built from."""
        if not config.verifier.separate:
            return None, ""
        if step:
            own = step.verifier.environment
            if own and own.docker_image:
                return own.docker_image, ""
            if self.folder.has(f"steps/{step.name}/tests/Dockerfile"):
                return None, f"steps/{step.name}/tests"
        table = config.verifier.environment
        if table and table.docker_image:
            return table.docker_image, ""
        return None, "tests" if self.folder.has("tests/Dockerfile") else ""

    def require_steps(self, config: TaskConfig) -> None:
        """The folders of the steps are there, as folders: nothing is looked for through a link."""
        names = ["steps", *(f"steps/{step.name}" for step in config.steps)] if config.steps else []
        for name in names:
            if not self.folder.has(name) or not (self.folder.path / name).is_dir():
                raise InvalidTaskError(f"{name}/ is missing")


def _setup(image: str | None, table: EnvironmentTable, task: EnvironmentTable) -> EnvironmentSetup:
    return EnvironmentSetup(
        image=image,
        build_timeout_seconds=table.build_timeout_sec,
        workdir=table.workdir or task.workdir,
    )


def resources_of(table: EnvironmentTable, params: HarborParams) -> ResourceRequirements | None:
    """Those that the parameter ``limits`` lets through; ``None`` when it is none."""
    wanted: dict[str, Any] = {
        "cpu": ("cpu", table.cpus),
        "memory": ("memory_mb", table.memory_mb),
        "storage": ("storage_mb", table.storage_mb),
        "gpu": ("gpu", table.gpus or None),
    }
    found = {
        name: value for limit, (name, value) in wanted.items() if limit in params.limits and value is not None
    }
    return ResourceRequirements(**found) if found else None


def user_of(value: str | int | None) -> str | None:
    """A user's name or number as text."""
    return None if value is None else str(value)
