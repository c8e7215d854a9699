"""Sandboxes on a real engine, for what the provider contract leaves open."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from typing import Any

import docker
import pytest
from docker_engine import IMAGE, engine, open_request, require_engine

from agentcompass.contracts import EnvironmentSpec, NetworkPolicy
from agentcompass.plugins.environments.docker import Docker, DockerParams
from agentcompass.plugins.environments.docker.session import DockerSession

Opening = Callable[..., AbstractAsyncContextManager[DockerSession]]


@pytest.fixture
def client() -> docker.DockerClient:
    """The engine, beside the provider's own connection."""
    return require_engine()


@pytest.fixture
def provider(client: docker.DockerClient) -> Callable[..., Docker]:
    """Makes a provider; parameters may be changed."""

    def make(**changes: Any) -> Docker:
        return Docker(
            DockerParams.model_validate({"image": IMAGE, "pull": "never", "grace_seconds": 0.2} | changes)
        )

    return make


@pytest.fixture
def opening(provider: Callable[..., Docker]) -> Opening:
    """``async with opening(params={…}, resources={…}, policy=…) as session``; closed afterwards."""

    @contextlib.asynccontextmanager
    async def open_one(
        params: dict[str, Any] | None = None, policy: Any = "no-network", **spec: Any
    ) -> AsyncIterator[DockerSession]:
        environment = provider(**(params or {}))
        request = open_request(
            spec=EnvironmentSpec(id="docker", **spec), network_policy=NetworkPolicy.model_validate(policy)
        )
        session = await environment.open(request)
        try:
            yield session
        finally:
            await environment.close(session.handle)

    return open_one


@pytest.fixture(scope="session", autouse=True)
def no_helper_left() -> Iterator[None]:
    """Egress proxy and keeper would end themselves some minutes later; in use by somebody else, they stay."""
    yield
    found = engine()
    if not isinstance(found, str) and not found.api.containers(
        all=True, filters={"label": ["agentcompass.environment"]}
    ):
        for name in ("agentcompass-egress", "agentcompass-keeper"):
            with contextlib.suppress(docker.errors.NotFound):
                found.api.remove_container(name, force=True)
