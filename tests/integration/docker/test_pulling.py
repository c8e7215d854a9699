"""Images from a registry: pulled when a sandbox needs them, and what is told when they cannot be had."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import docker
import pytest
from docker_engine import open_request
from environment_providers import eventually
from image_registry import NOISE_BYTES, PASSWORD, USER, Registry, serving

from agentcompass.contracts import EnvironmentSpec, ServiceUnreachableError, UsageError
from agentcompass.plugins.environments.docker import Docker, images

Provider = Callable[..., Docker]


@pytest.fixture
def registry(client: docker.DockerClient, tmp_path: Path) -> Iterator[Registry]:
    """Open to everybody; what was pulled from it is not left on the engine."""
    with serving(Registry(tmp_path)) as running:
        yield running
    forget_all_of(running, client)


@pytest.fixture
def closed_registry(client: docker.DockerClient, tmp_path: Path) -> Iterator[Registry]:
    """For those with a password."""
    with serving(Registry(tmp_path, closed=True)) as running:
        yield running
    forget_all_of(running, client)


def forget_all_of(registry: Registry, client: docker.DockerClient) -> None:
    """Remove its images from the engine."""
    for image in client.images.list(f"{registry.address}/*/*"):
        client.images.remove(image.id, force=True)


async def opened_image(environment: Docker, client: docker.DockerClient) -> str:
    """The id of the image that a sandbox gets."""
    session = await environment.open(open_request())
    try:
        assert (await session.exec("wc -c < /noise")).stdout.text.strip() == str(NOISE_BYTES)
        found: str = client.api.inspect_container(session.handle.data["container"])["Image"]
        return found
    finally:
        await environment.close(session.handle)


async def test_a_missing_image_is_pulled_when_it_is_needed_and_the_log_tells_how_far_that_is(
    provider: Provider,
    client: docker.DockerClient,
    registry: Registry,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(images, "_REPORT_SECONDS", 0.0)
    caplog.set_level(logging.INFO, logger=images.__name__)
    name = registry.push(client, "test/base")
    environment = provider(image=name, pull="missing")
    await environment.preflight(EnvironmentSpec(id="docker"))
    assert client.images.list(name) == []
    await opened_image(environment, client)
    told = [record.getMessage() for record in caplog.records if record.name == images.__name__]
    assert told[0] == f"pulling image {name}"
    assert f"pulling image {name}: 6 of 6 MB" in told


async def test_an_image_that_is_there_is_pulled_again_only_when_asked_for(
    provider: Provider, client: docker.DockerClient, registry: Registry
) -> None:
    name = registry.push(client, "test/moving")
    old = await opened_image(provider(image=name, pull="missing"), client)
    client.images.get(old).tag(f"{registry.address}/test/kept", "1")
    registry.push(client, "test/moving", version=2)
    client.images.get(old).tag(name.removesuffix(":1"), "1")
    assert await opened_image(provider(image=name, pull="missing"), client) == old
    assert await opened_image(provider(image=name, pull="always"), client) != old


@pytest.mark.parametrize("wrong", ["test/nothing:1", "test/base:2"], ids=["name", "tag"])
async def test_what_the_registry_does_not_have_is_named(
    provider: Provider, client: docker.DockerClient, registry: Registry, wrong: str
) -> None:
    registry.push(client, "test/base")
    name = f"{registry.address}/{wrong}"
    environment = provider(image=name, pull="missing")
    with pytest.raises(UsageError, match=f"{name}.*(manifest unknown|not found)"):
        await environment.preflight(EnvironmentSpec(id="docker"))
    with pytest.raises(UsageError, match=f"{name}.*(manifest unknown|not found)"):
        await environment.open(open_request())


async def test_a_registry_that_is_away_is_named(
    provider: Provider, client: docker.DockerClient, registry: Registry
) -> None:
    name = registry.push(client, "test/base")
    registry.stop()
    environment = provider(image=name, pull="missing")
    with pytest.raises(UsageError, match=f"{name}.*connection refused"):
        await environment.preflight(EnvironmentSpec(id="docker"))
    with pytest.raises(UsageError, match=f"{name}.*connection refused"):
        await environment.open(open_request())
    registry.start()
    await opened_image(environment, client)


async def test_a_registry_that_accepts_and_never_answers_is_named_and_can_be_given_up(
    provider: Provider, client: docker.DockerClient, registry: Registry, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger=images.__name__)
    name = registry.push(client, "test/base")
    registry.freeze()
    with pytest.raises(ServiceUnreachableError, match=f"{name}.*its registry"):
        await provider(image=name, pull="missing", engine_timeout_seconds=3).preflight(
            EnvironmentSpec(id="docker")
        )
    opening = asyncio.create_task(provider(image=name, pull="missing").open(open_request()))

    async def begun() -> bool:
        return f"pulling image {name}" in caplog.messages

    await eventually(begun, "the pull has begun")
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(opening, 12)  # the engine itself would wait for longer
    registry.stop()


async def test_a_registry_that_lets_nobody_in_says_so(
    provider: Provider, client: docker.DockerClient, closed_registry: Registry
) -> None:
    name = closed_registry.push(client, "test/private")
    environment = provider(image=name, pull="missing")
    with pytest.raises(UsageError, match=f"{name}.*(no basic auth|unauthorized|authorization|denied)"):
        await environment.preflight(EnvironmentSpec(id="docker"))
    with pytest.raises(UsageError, match=f"{name}.*(no basic auth|unauthorized|authorization|denied)"):
        await environment.open(open_request())


@pytest.mark.parametrize("password", [PASSWORD, "canary-wrong"], ids=["right", "wrong"])
async def test_what_docker_login_stored_opens_a_registry(
    provider: Provider,
    client: docker.DockerClient,
    closed_registry: Registry,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    password: str,
) -> None:
    name = closed_registry.push(client, "test/private")
    stored = base64.b64encode(f"{USER}:{password}".encode()).decode()
    (tmp_path / "config.json").write_text(json.dumps({"auths": {closed_registry.address: {"auth": stored}}}))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    # A process connects to an engine once, and knows the passwords from then on; this is another connection.
    timeout = 60 + len(password)
    environment = provider(image=name, pull="missing", engine_timeout_seconds=timeout)
    if password == PASSWORD:
        await environment.preflight(EnvironmentSpec(id="docker"))
        await opened_image(environment, client)
        return
    for refused in (environment.preflight(EnvironmentSpec(id="docker")), environment.open(open_request())):
        with pytest.raises(UsageError, match=name) as raised:
            await refused
        assert re.search("unauthorized|denied|authorization", str(raised.value))
        assert password not in str(raised.value) and stored not in str(raised.value)
