"""From a task folder to a :class:`TaskSpec`."""

from __future__ import annotations

import re
import tomllib
from typing import Any

from pydantic import ValidationError

from ....contracts.artifacts import ArtifactCommand, ArtifactSpec
from ....contracts.request import EnvironmentSetup, EnvironmentSpec, EvaluationMode, ResourceRequirements
from ....contracts.task import OracleCommand, TaskSpec
from ...environments.docker.compose import ComposeError, project_of
from ...params import describe_validation_error
from .config import EnvironmentTable, TaskConfig, VerifierTable
from .facts import HarborFacts
from .folder import InvalidTaskError, TaskFolder
from .params import HarborParams
from .paths import MAPPED_ENVIRONMENT, SandboxPaths, mapped_source
from .sources import Candidate
from .variables import task_variables

_CANARY = re.compile(r"^\s*(<!--.*canary.*-->|#.*canary.*)\s*$", re.IGNORECASE)
_COMPOSE = ("docker-compose.yaml", "docker-compose.yml", "compose.yaml", "compose.yml")
_ARTIFACTS = "/logs/artifacts"
_WITH_SERVICES = "docker"
"""The environment that runs the services of a compose file."""
_BUILDS_NOTHING = ("daytona",)
"""Environments that take an image by its name only."""


def read_config(folder: TaskFolder) -> TaskConfig:
    """``task.toml``. Raises ``InvalidTaskError``."""
    try:
        value = tomllib.loads(folder.text("task.toml"))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InvalidTaskError(f"task.toml is not TOML: {error}") from None
    try:
        return TaskConfig.model_validate(value)
    except ValidationError as error:
        raise InvalidTaskError(describe_validation_error(error, TaskConfig, "task.toml")) from None


def read_task(candidate: Candidate, params: HarborParams, environment: str) -> tuple[TaskSpec, list[str]]:
    """The task, and the keys of its task.toml that are not known. Blocks. Raises ``InvalidTaskError``."""
    folder = candidate.folder
    config = read_config(folder)
    _require_supported(config, folder)
    compose = _compose_file(folder, environment)
    mapped = environment == MAPPED_ENVIRONMENT
    facts = _facts(candidate, config, params, compose)
    if mapped:
        _require_no_image(facts)
    verifier, table = config.verifier, config.environment
    own = verifier.environment
    try:
        task = TaskSpec(
            task_id=candidate.name,
            question=_instruction(folder),
            category=config.category,
            metadata=facts.model_dump(mode="json", exclude_defaults=True),
            resources=_resources(table, params),
            network_policy=table.policy,
            run_network_policy=config.agent.policy,
            evaluation_network_policy=verifier.policy or (own.policy if own else None),
            evaluation_environment_mode=EvaluationMode.FRESH if verifier.separate else None,
            env_variables=task_variables("environment.env", table.env, params.host_variables),
            evaluation_env_variables=task_variables("verifier.env", verifier.env, params.host_variables),
            evaluation_environment_env_variables=None
            if own is None
            else task_variables("verifier.environment.env", own.env, params.host_variables),
            artifacts=_artifacts(config, mapped),
            artifact_collect=_collect(verifier, mapped),
            run_timeout_seconds=config.agent.timeout_sec,
            evaluation_timeout_seconds=verifier.timeout_sec,
            oracle=_oracle(config, facts, params, mapped),
        )
    except ValidationError as error:
        raise InvalidTaskError(describe_validation_error(error, TaskSpec, "the task")) from None
    return task, config.unknown()


def _require_supported(config: TaskConfig, folder: TaskFolder) -> None:
    environment = config.environment
    problems = {
        "steps: tasks of several steps are not supported": bool(config.steps),
        "trajectory.json: tasks with a conversation before them are not supported": folder.has(
            "trajectory.json"
        ),
        "environment.os: only linux is supported": environment.os != "linux",
        "environment.tpu is not supported": environment.tpu is not None,
        "environment.mcp_servers is not supported": bool(environment.mcp_servers),
        "verifier.collect: another service than main, or a user, is not supported": any(
            item.service != "main" or item.user is not None for item in config.verifier.collect
        ),
        "artifacts of another service than main are not supported": any(
            item.service != "main" for item in config.artifacts
        ),
    }
    for text, found in problems.items():
        if found:
            raise InvalidTaskError(text)
    if environment.docker_image is None and not folder.has("environment"):
        raise InvalidTaskError("neither environment.docker_image nor environment/ is there")
    brings_tests = config.verifier.environment is not None and config.verifier.environment.docker_image
    if not brings_tests and not folder.has("tests/test.sh"):
        raise InvalidTaskError("tests/test.sh is missing")


def _compose_file(folder: TaskFolder, environment: str) -> str:
    """The name of the task's compose file in ``environment/``, empty without one; checked as a whole."""
    links = [name for name in _COMPOSE if (folder.path / "environment" / name).is_symlink()]
    if links:
        raise InvalidTaskError(f"environment/{links[0]} is a link")
    found = [name for name in _COMPOSE if folder.has(f"environment/{name}")]
    if not found:
        return ""
    if len(found) > 1:
        raise InvalidTaskError(f"environment/ has several compose files: {', '.join(found)}")
    if environment != _WITH_SERVICES:
        raise InvalidTaskError(
            f"its services (environment/{found[0]}) are not to be had on {environment}: use --env {_WITH_SERVICES}"
        )
    try:
        project_of(folder.text(f"environment/{found[0]}"), folder.path / "environment")
    except ComposeError as error:
        raise InvalidTaskError(f"environment/{found[0]}: {error}") from None
    return found[0]


def _facts(candidate: Candidate, config: TaskConfig, params: HarborParams, compose: str) -> HarborFacts:
    folder, table, verifier = candidate.folder, config.environment, config.verifier
    own = verifier.environment
    image = own.docker_image if own else None
    builds = verifier.separate and image is None and folder.has("tests/Dockerfile")
    setup = EnvironmentSetup(
        image=table.docker_image, build_timeout_seconds=table.build_timeout_sec, workdir=table.workdir
    )
    verifier_setup = None
    if image or builds:
        verifier_setup = EnvironmentSetup(
            image=image,
            build_timeout_seconds=(own or table).build_timeout_sec,
            workdir=(own and own.workdir) or table.workdir,
        )
    return HarborFacts(
        source=candidate.source,
        digest=folder.digest(),
        tests_digest=folder.digest(["tests"]),
        solution_digest=folder.digest(["solution"]) if folder.has("solution/solve.sh") else "",
        builds_image=table.docker_image is None and folder.has("environment/Dockerfile"),
        compose_file=compose,
        setup=setup,
        separate_verifier=verifier.separate,
        verifier_setup=verifier_setup,
        verifier_builds_image=builds,
        verifier_resources=_resources(own, params) if own else None,
        verifier_user=_user(verifier.user),
        uploads_tests=not builds and folder.has("tests/test.sh"),
        agent_user=_user(config.agent.user),
        healthcheck=table.healthcheck,
    )


def _require_no_image(facts: HarborFacts) -> None:
    if facts.setup.image or facts.builds_image or facts.verifier_setup:
        raise InvalidTaskError(f"it needs an image, which {MAPPED_ENVIRONMENT} has not: use --env docker")


def require_image(task: TaskSpec, environment: EnvironmentSpec) -> None:
    """Raise ``InvalidTaskError`` for a task whose image would be built where images are only named."""
    if environment.id not in _BUILDS_NOTHING:
        return
    facts = HarborFacts.of(task)
    if facts.builds_image and not environment.setup.image:
        raise InvalidTaskError(
            f"its image is built from environment/Dockerfile, and {environment.id} builds none: name a published one "
            "as environment.docker_image in task.toml, or as setup.image for all tasks"
        )
    if facts.verifier_builds_image:
        raise InvalidTaskError(
            f"its verifier's image is built from tests/Dockerfile, and {environment.id} builds none: name a published "
            "one as verifier.environment.docker_image in task.toml"
        )


def _instruction(folder: TaskFolder) -> str:
    """``instruction.md`` without canary lines at its beginning, and the blank lines after them."""
    if not folder.has("instruction.md"):
        raise InvalidTaskError("instruction.md is missing")
    lines = folder.text("instruction.md").splitlines(keepends=True)
    count = 0
    while count < len(lines) and _CANARY.match(lines[count]):
        count += 1
    while 0 < count < len(lines) and not lines[count].strip():
        count += 1
    text = "".join(lines[count:])
    if not text.strip():
        raise InvalidTaskError("instruction.md is empty")
    return text


def _resources(table: EnvironmentTable, params: HarborParams) -> ResourceRequirements | None:
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


def _artifacts(config: TaskConfig, mapped: bool) -> list[ArtifactSpec] | None:
    """The declared ones; a separate verifier sees ``/logs/artifacts``, too."""
    declared = [
        ArtifactSpec(
            source=mapped_source(item.source) if mapped else item.source,
            destination=item.destination,
            exclude=item.exclude,
        )
        for item in config.artifacts
    ]
    if config.verifier.separate and all(item.source != _ARTIFACTS for item in config.artifacts):
        declared.append(ArtifactSpec(source=mapped_source(_ARTIFACTS) if mapped else _ARTIFACTS))
    return declared or None


def _collect(verifier: VerifierTable, mapped: bool) -> list[ArtifactCommand]:
    """A command that fails has found nothing to collect: that is the agent's doing, which the verifier sees."""
    return [
        ArtifactCommand(
            command=f"(\n{_in_workdir(item.command) if mapped else item.command}\n) || true",
            timeout_seconds=item.timeout_sec,
        )
        for item in verifier.collect
    ]


def _oracle(
    config: TaskConfig, facts: HarborFacts, params: HarborParams, mapped: bool
) -> OracleCommand | None:
    """``solution/solve.sh``, which is put in place for the harness ``oracle`` only."""
    if not facts.solution_digest:
        return None
    script = _in_workdir("/solution/solve.sh") if mapped else "/solution/solve.sh"
    return OracleCommand(
        command=script,
        user=facts.agent_user,
        env_variables=task_variables("solution.env", config.solution.env, params.host_variables),
    )


def _in_workdir(text: str) -> str:
    """Paths as a command that starts in the work directory of ``host_process`` finds them."""
    return SandboxPaths.of(MAPPED_ENVIRONMENT, ".").rewritten(text)


def _user(value: str | int | None) -> str | None:
    return None if value is None else str(value)
