"""From a task folder to a :class:`TaskSpec`."""

from __future__ import annotations

import tomllib

from pydantic import ValidationError

from ....contracts.artifacts import ArtifactCommand, ArtifactSpec
from ....contracts.request import EvaluationMode
from ....contracts.task import McpServer, OracleCommand, TaskSpec
from ...params import describe_validation_error
from .checks import compose_file_of, require_no_image, require_supported
from .config import StepTable, TaskConfig, VerifierTable
from .facts import HarborFacts
from .folder import InvalidTaskError, TaskFolder
from .instruction import conversation, instruction
from .params import HarborParams
from .paths import MAPPED_ENVIRONMENT, SandboxPaths, mapped_source
from .reading import Reading, resources_of, user_of
from .sources import Candidate
from .step_config import of_step
from .variables import task_variables

_ARTIFACTS = "/logs/artifacts"


def read_config(folder: TaskFolder) -> TaskConfig:
    """``task.toml``. Raises ``InvalidTaskError``."""
    try:
        value = tomllib.loads(folder.text("task.toml"))
    except (ValueError, RecursionError) as error:  # also int's own, of a number with thousands of digits
        raise InvalidTaskError(f"task.toml is not TOML: {error}") from None
    try:
        return TaskConfig.model_validate(value)
    except ValidationError as error:
        raise InvalidTaskError(describe_validation_error(error, TaskConfig, "task.toml")) from None


def read_task(candidate: Candidate, params: HarborParams, environment: str) -> tuple[TaskSpec, list[str]]:
    """The task, and the keys of its task.toml that are not known. Blocks. Raises ``InvalidTaskError``."""
    folder = candidate.folder
    config = read_config(folder)
    require_supported(config, folder)
    compose = compose_file_of(folder, environment)
    reading = Reading(candidate, params, compose, digest=folder.digest())
    reading.require_steps(config)
    try:
        task = _spec(reading, config, None, environment)
        steps = [
            _spec(reading, of_step(config, step), step, environment, first=number == 0)
            for number, step in enumerate(config.steps)
        ]
        if steps:
            told = "\n\n".join(f"# {step.task_id}\n\n{step.question}" for step in steps)
            task = TaskSpec.model_validate({**task.model_dump(), "question": told, "steps": steps})
    except ValidationError as error:
        raise InvalidTaskError(describe_validation_error(error, TaskSpec, "the task")) from None
    return task, config.unknown()


def _spec(
    reading: Reading, config: TaskConfig, step: StepTable | None, environment: str, *, first: bool = False
) -> TaskSpec:
    """A task, or one of its steps: ``config`` is what holds in it."""
    mapped = environment == MAPPED_ENVIRONMENT
    facts = reading.facts(config, step, first=first)
    if mapped:
        require_no_image(facts)
    folder, params = reading.folder, reading.params
    below = f"steps/{step.name}/" if step else ""
    verifier, table, own = config.verifier, config.environment, config.verifier.environment
    begins = first or not (step or config.steps)
    return TaskSpec(
        task_id=step.name if step else reading.candidate.name,
        question="" if config.steps else instruction(folder, below),
        category=config.category,
        metadata=facts.model_dump(mode="json", exclude_defaults=True),
        resources=resources_of(table, params),
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
        mcp_servers=[
            McpServer(
                name=server.name,
                transport=server.transport,
                url=server.url,
                command=server.command,
                args=server.args,
            )
            for server in table.mcp_servers
        ],
        skills_dir=table.skills_dir,
        conversation=conversation(folder, below) if begins else [],
    )


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
            user=None if mapped else user_of(item.user),
        )
        for item in verifier.collect
    ]


def _oracle(
    config: TaskConfig, facts: HarborFacts, params: HarborParams, mapped: bool
) -> OracleCommand | None:
    """``solve.sh``, which is put in place for the harness ``oracle`` only."""
    if facts.solution is None:
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
