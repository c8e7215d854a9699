"""What of the format cannot be carried out: refused by name, before anything is opened."""

from __future__ import annotations

from ....contracts.request import EnvironmentSpec
from ....contracts.task import TaskSpec
from ...environments.docker.compose import ComposeError, project_of
from .config import TaskConfig
from .facts import HarborFacts
from .folder import InvalidTaskError, TaskFolder
from .paths import MAPPED_ENVIRONMENT

_COMPOSE = "docker-compose.yaml"
_OTHER_NAMES = ("docker-compose.yml", "compose.yaml", "compose.yml")
"""Beside a Dockerfile they are part of what the image is built from: some tasks are about compose files."""
_WITH_SERVICES = "docker"
"""The environment that runs the services of a compose file."""
_BUILDS_NOTHING = ("daytona",)
"""Environments that take an image by its name only."""


def require_supported(config: TaskConfig, folder: TaskFolder) -> None:
    """Raise ``InvalidTaskError`` for what is understood and cannot be done."""
    environment = config.environment
    verifiers = [config.verifier, *(step.verifier for step in config.steps)]
    artifacts = [*config.artifacts, *(item for step in config.steps for item in step.artifacts)]
    problems = {
        "environment.os: only linux is supported": environment.os != "linux",
        "environment.tpu is not supported": environment.tpu is not None,
        "environment.mcp_servers: headers are not supported": any(
            server.headers for server in environment.mcp_servers
        ),
        "verifier.collect: another service than main is not supported": any(
            item.service != "main" for table in verifiers for item in table.collect
        ),
        "artifacts of another service than main are not supported": any(
            item.service != "main" for item in artifacts
        ),
    }
    for text, found in problems.items():
        if found:
            raise InvalidTaskError(text)
    if environment.docker_image is None and not folder.has("environment"):
        raise InvalidTaskError("neither environment.docker_image nor environment/ is there")


def compose_file_of(folder: TaskFolder, environment: str) -> str:
    """The name of the task's compose file in ``environment/``, empty without one; checked as a whole."""
    names = [_COMPOSE] if folder.has("environment/Dockerfile") else [_COMPOSE, *_OTHER_NAMES]
    links = [name for name in names if (folder.path / "environment" / name).is_symlink()]
    if links:
        raise InvalidTaskError(f"environment/{links[0]} is a link")
    found = [name for name in names if folder.has(f"environment/{name}")]
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


def require_no_image(facts: HarborFacts) -> None:
    """For an environment that has none. Raises ``InvalidTaskError``."""
    if facts.setup.image or facts.builds_image or facts.verifier_setup:
        raise InvalidTaskError(f"it needs an image, which {MAPPED_ENVIRONMENT} has not: use --env docker")


def require_image(task: TaskSpec, environment: EnvironmentSpec) -> None:
    """Raise ``InvalidTaskError`` for a task whose image would be built where images are only named."""
    if environment.id not in _BUILDS_NOTHING:
        return
    for facts in map(HarborFacts.of, [task, *task.steps]):
        if facts.builds_image and not environment.setup.image:
            raise InvalidTaskError(
                f"its image is built from environment/Dockerfile, and {environment.id} builds none: name a published "
                "one as environment.docker_image in task.toml, or as setup.image for all tasks"
            )
        if facts.verifier_context:
            raise InvalidTaskError(
                f"its verifier's image is built from {facts.verifier_context}/Dockerfile, and {environment.id} builds "
                "none: name a published one as verifier.environment.docker_image in task.toml"
            )
