"""Opening: repeated, cut off, in the way of others, and of images that are made first."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest
from docker_engine import IMAGE, SHELL_LESS_IMAGE, containers_of, open_request
from environment_providers import eventually

from agentcompass.contracts import (
    EnvironmentHandle,
    EnvironmentSpec,
    NetworkPolicy,
    ServiceUnreachableError,
    UsageError,
)
from agentcompass.plugins.environments.docker.container import container_name
from agentcompass.plugins.environments.docker.creation import Creation


@pytest.fixture
def launch(client: docker.DockerClient) -> Iterator[str]:
    """A label value of the test's own; nothing that carries it is left."""
    name = f"docker-test {uuid.uuid4().hex}"
    yield name
    left = containers_of(client, launch=name)
    for container in left:
        client.api.remove_container(container, force=True)
    assert left == []


async def test_a_container_that_was_created_and_never_started_is_taken_up(provider, client, launch) -> None:  # type: ignore[no-untyped-def]
    request = open_request(labels={"launch": launch})
    environment = provider()
    first = await environment.open(request)
    container = first.handle.data["container"]
    # As a worker leaves it that dies between the two steps.
    client.api.remove_container(container, force=True)
    image = client.api.inspect_image(IMAGE)["Id"]
    made = client.api.create_container(
        image,
        ["sh", "-c", 'eval "$1"', "init", "sleep 600", "/workspace", "0"],
        name=container_name(request.environment_id, 0),
        labels={"agentcompass.environment": request.environment_id, "agentcompass.label.launch": launch},
    )["Id"]
    session = await environment.open(request)
    assert session.handle.data["container"] == made
    assert client.api.inspect_container(made)["State"]["Running"]
    await environment.close(session.handle)


async def test_a_dead_container_of_the_same_id_is_replaced(provider, client, launch) -> None:  # type: ignore[no-untyped-def]
    request = open_request(labels={"launch": launch})
    environment = provider()
    first = await environment.open(request)
    client.api.kill(first.handle.data["container"])
    second = await environment.open(request)
    assert second.handle.data["container"] != first.handle.data["container"]
    assert (await second.exec("echo fresh")).ok
    assert len(containers_of(client, launch=launch)) == 1
    await environment.close(second.handle)


async def test_a_stranger_s_container_of_the_same_name_stays_and_is_not_used(
    provider, client, launch
) -> None:  # type: ignore[no-untyped-def]
    request = open_request(labels={"launch": launch})
    environment = provider()
    stranger = client.api.create_container(
        IMAGE, ["sleep", "600"], name=container_name(request.environment_id, 0)
    )
    try:
        session = await environment.open(request)
        again = await environment.open(request)
        assert session.handle == again.handle
        assert session.handle.data["container"] != stranger["Id"]
        await environment.close(EnvironmentHandle(provider="docker", id=request.environment_id))
        assert client.api.inspect_container(stranger["Id"])["State"]["Status"] == "created"
    finally:
        client.api.remove_container(stranger["Id"], force=True)


async def test_openings_of_an_id_at_the_same_time_make_one_container(provider, client, launch) -> None:  # type: ignore[no-untyped-def]
    request = open_request(labels={"launch": launch})
    environment = provider()
    sessions = await asyncio.gather(*(environment.open(request) for _ in range(4)))
    assert len({session.handle.data["container"] for session in sessions}) == 1
    assert len(containers_of(client, launch=launch)) == 1
    await environment.close(sessions[0].handle)


async def test_a_failure_after_the_container_was_made_leaves_none(  # type: ignore[no-untyped-def]
    provider, client, launch, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: Creation, container: str) -> None:
        raise OSError("injected after the creation")

    monkeypatch.setattr(Creation, "_started", broken)
    with pytest.raises(OSError, match="injected"):
        await provider().open(open_request(labels={"launch": launch}))
    assert containers_of(client, launch=launch) == []


async def test_an_opening_that_is_cancelled_leaves_no_container(provider, client, launch) -> None:  # type: ignore[no-untyped-def]
    request = open_request(labels={"launch": launch})
    environment = provider()
    working = asyncio.create_task(environment.open(request))

    async def begun() -> bool:
        return bool(await asyncio.to_thread(containers_of, client, launch=launch))

    await eventually(begun, "the container is made")
    working.cancel()
    try:
        session = await working
    except asyncio.CancelledError:
        pass
    else:  # it was quicker
        await environment.close(session.handle)
    assert containers_of(client, launch=launch) == []


async def test_a_handle_cannot_name_a_container_of_somebody_else(provider, client) -> None:  # type: ignore[no-untyped-def]
    stranger = client.api.create_container(IMAGE, ["sleep", "600"])["Id"]
    try:
        client.api.start(stranger)
        handle = EnvironmentHandle(provider="docker", id="ac-forged", data={"container": stranger})
        with pytest.raises(ValueError, match="is not environment 'ac-forged'"):
            await provider().attach(handle)
        await provider().close(handle)
        assert client.api.inspect_container(stranger)["State"]["Running"]
    finally:
        client.api.remove_container(stranger, force=True)


async def test_values_of_variables_are_not_in_what_the_engine_lists(provider, client, launch) -> None:  # type: ignore[no-untyped-def]
    request = open_request(labels={"launch": launch}, env_variables={"SERVICE_PASSWORD": "canary-90ab"})
    environment = provider()
    session = await environment.open(request)
    assert (await session.exec('printf %s "$SERVICE_PASSWORD"')).stdout.text == "canary-90ab"
    listed = (
        f"{client.api.containers(all=True)} {client.api.inspect_container(session.handle.data['container'])}"
    )
    assert "canary-90ab" not in listed
    await environment.close(session.handle)


async def test_an_image_without_a_shell_is_named(provider, client, launch) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(UsageError, match=r"agentcompass-test-empty.*has no shell"):
        await provider(image=SHELL_LESS_IMAGE).open(open_request(labels={"launch": launch}))
    assert containers_of(client, launch=launch) == []


@pytest.mark.parametrize("pull", ["never", "missing"])
async def test_a_missing_image_is_refused_at_preflight(provider, pull: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(UsageError, match="localhost:1/no/such:image"):
        await provider(image="localhost:1/no/such:image", pull=pull).preflight(EnvironmentSpec(id="docker"))


async def test_a_missing_image_cannot_be_opened(provider) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(UsageError, match="localhost:1/no/such:image"):
        await provider(image="localhost:1/no/such:image", pull="missing").open(open_request())


async def test_an_engine_that_is_not_there_is_named(provider, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ServiceUnreachableError, match=str(tmp_path)):
        await provider(host=f"unix://{tmp_path}/none.sock").preflight(EnvironmentSpec(id="docker"))


def test_only_a_local_engine_binds_work_to_its_host(provider) -> None:  # type: ignore[no-untyped-def]
    assert provider().capabilities.host_bound
    assert not provider(host="tcp://engine.example.com:2376").capabilities.host_bound
    assert provider(host="tcp://127.0.0.1:2375").capabilities.host_bound


def build_request(context: Path, launch: str, **setup: object):  # type: ignore[no-untyped-def]
    spec = EnvironmentSpec(id="docker", setup={"build_context": str(context), **setup})
    return open_request(
        spec=spec, labels={"launch": launch}, network_policy=NetworkPolicy(network_mode="no-network")
    )


async def test_an_image_is_built_from_a_folder_once_for_the_same_content(
    provider, client, launch, tmp_path: Path
) -> None:  # type: ignore[no-untyped-def]
    marker = uuid.uuid4().hex
    (tmp_path / "Dockerfile").write_text(
        f"FROM {IMAGE}\nRUN echo {marker}\nCOPY hello.txt /hello.txt\nWORKDIR /srv/task\n"
    )
    (tmp_path / "hello.txt").write_text("from the context")
    (tmp_path / "secret.txt").write_text("not to be sent")
    (tmp_path / ".dockerignore").write_text("secret.txt\n")
    environment = provider()
    sessions = await asyncio.gather(*(environment.open(build_request(tmp_path, launch)) for _ in range(2)))
    assert await sessions[0].read("/hello.txt") == b"from the context"
    assert sessions[0].workdir == "/srv/task"
    images = {client.api.inspect_container(s.handle.data["container"])["Image"] for s in sessions}
    assert len(images) == 1
    for session in sessions:
        await environment.close(session.handle)
    client.images.remove(images.pop(), force=True)


async def test_a_build_that_fails_tells_its_end_and_keeps_its_log(provider, launch, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "Dockerfile").write_text(f"FROM {IMAGE}\nRUN echo complaint-{launch[-6:]} && false\n")
    with pytest.raises(UsageError, match=f"complaint-{launch[-6:]}.*returned a non-zero code") as raised:
        await provider().open(build_request(tmp_path, launch))
    log = Path(str(raised.value).partition("log in ")[2].partition(")")[0])
    assert f"complaint-{launch[-6:]}" in text_of(log)


async def test_a_build_that_is_cancelled_stops(provider, client, launch, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "Dockerfile").write_text(f"FROM {IMAGE}\nRUN : {launch} && sleep 600\n")
    working = asyncio.create_task(provider().open(build_request(tmp_path, launch)))

    async def builds() -> bool:
        return bool(await asyncio.to_thread(building, client, launch))

    await eventually(builds, "the build has begun")
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(working, 30)

    async def over() -> bool:
        return not await builds()

    await eventually(over, "the engine has given the build up")


def text_of(file: Path) -> str:
    """What is in it."""
    return file.read_text(encoding="utf-8")


def building(client: docker.DockerClient, launch: str) -> list[str]:
    """Containers in which the test's build runs a step."""
    return [item["Id"] for item in client.api.containers() if launch in item["Command"]]
