"""Resource limits, and what happens at them."""

from __future__ import annotations

import asyncio
import contextlib

import docker
import pytest
from docker_engine import open_request
from environment_providers import eventually

from agentcompass.contracts import EnvironmentLostError, EnvironmentSpec, UsageError


async def test_limits_reach_the_engine(opening, client: docker.DockerClient) -> None:  # type: ignore[no-untyped-def]
    async with opening({"pids_limit": 100}, resources={"cpu": 0.5, "memory_mb": 64}) as session:
        limits = client.api.inspect_container(session.handle.data["container"])["HostConfig"]
        assert limits["NanoCpus"] == 500_000_000
        assert limits["Memory"] == limits["MemorySwap"] == 64 * 1024**2
        assert limits["PidsLimit"] == 100


async def test_a_command_that_is_killed_for_memory_says_so(opening) -> None:  # type: ignore[no-untyped-def]
    async with opening(resources={"memory_mb": 32}) as session:
        result = await session.exec("x=1234567890; while :; do x=$x$x; done", timeout_seconds=60)
        assert result.oom_killed and not result.ok and not result.timed_out
        assert not (await session.exec("true")).oom_killed


async def test_a_detached_process_that_is_killed_for_memory_says_so(opening) -> None:  # type: ignore[no-untyped-def]
    async with opening(resources={"memory_mb": 32}) as session:
        await session.start_process("agent", "x=1234567890; while :; do x=$x$x; done")

        async def ended() -> bool:
            status = await session.process_status("agent")
            return status is not None and not status.running

        await eventually(ended, "the process runs out of memory")
        status = await session.process_status("agent")
        assert status is not None and status.oom_killed and status.returncode == 137


async def test_a_fork_bomb_is_bounded_and_ended_with_its_command(opening) -> None:  # type: ignore[no-untyped-def]
    async with opening({"pids_limit": 64}) as session:
        await session.write("kept.txt", b"kept")
        bomb = "bomb() { bomb & bomb & wait; }; bomb"
        await session.start_process("bomb", f"{bomb}; {bomb}; sleep 600")
        with contextlib.suppress(OSError):  # there may be no process left for it, which it says
            await session.exec(bomb, timeout_seconds=1)
        await session.end_all_processes()
        assert await session.read("kept.txt") == b"kept"
        assert (await session.exec("echo free")).stdout.text == "free\n"


@pytest.mark.parametrize(
    ("resources", "named"),
    [
        ({"cpu": 10_000}, r"resources\.cpu"),
        ({"memory_mb": 10**9}, r"resources\.memory_mb"),
        ({"memory_mb": 1}, "memory"),
    ],
)
async def test_what_the_engine_does_not_have_is_refused_at_preflight(provider, resources, named: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(UsageError, match=named):
        await provider().preflight(EnvironmentSpec(id="docker", resources=resources))


async def test_gpus_and_storage_are_refused_where_the_engine_has_none(
    provider, client: docker.DockerClient
) -> None:  # type: ignore[no-untyped-def]
    info = client.info()
    if "nvidia" not in info["Runtimes"]:
        with pytest.raises(UsageError, match=r"resources\.gpu"):
            await provider().preflight(EnvironmentSpec(id="docker", resources={"gpu": 1}))
    if "extfs" in str(info["DriverStatus"]):
        with pytest.raises(UsageError, match=r"resources\.storage_mb"):
            await provider().preflight(EnvironmentSpec(id="docker", resources={"storage_mb": 100}))


async def test_what_a_task_asks_for_and_the_engine_refuses_is_named(
    provider, client: docker.DockerClient
) -> None:  # type: ignore[no-untyped-def]
    """Limits of tasks are known after preflight only; what the engine answers to them is made plain."""
    info = client.info()
    wishes = {}
    if "nvidia" not in info["Runtimes"]:
        wishes["gpu"] = 1
    if "xfs" not in str(info["DriverStatus"]):
        wishes["storage_mb"] = 100
    for name, value in wishes.items():
        request = open_request(spec=EnvironmentSpec(id="docker", resources={name: value}))
        with pytest.raises(UsageError, match=rf"resources\.{name}"):
            await provider().open(request)


@pytest.mark.parametrize("fits", [True, False])
async def test_an_image_for_another_platform_is_not_run(
    provider, client: docker.DockerClient, fits: bool
) -> None:  # type: ignore[no-untyped-def]
    own = client.version()["Arch"]
    other = "arm64" if own != "arm64" else "amd64"
    environment = provider(platform=f"linux/{own if fits else other}")
    if not fits:
        with pytest.raises(UsageError, match=f"is for {own}, not for linux/{other}"):
            await environment.open(open_request())
        return
    session = await environment.open(open_request())
    try:
        assert (await session.exec("echo on")).ok
    finally:
        await environment.close(session.handle)


async def test_a_full_disk_ends_the_command_and_not_the_sandbox(opening) -> None:  # type: ignore[no-untyped-def]
    async with opening({"shm_mb": 4}) as session:
        result = await session.exec("head -c 10000000 /dev/zero > /dev/shm/full")
        assert not result.ok
        assert (await session.exec("rm /dev/shm/full; echo on")).stdout.text == "on\n"


async def test_a_container_that_is_removed_under_an_agent_is_a_lost_environment(  # type: ignore[no-untyped-def]
    opening, client: docker.DockerClient
) -> None:
    async with opening() as session:
        await session.start_process("agent", "sleep 600")
        waiting = asyncio.create_task(session.exec("echo on; sleep 600"))
        client.api.remove_container(session.handle.data["container"], force=True)
        with pytest.raises(EnvironmentLostError, match="removed"):
            await asyncio.wait_for(waiting, 60)
        for operation in (
            session.process_status("agent"),
            session.read_process_output("agent", "stdout", 0),
            session.read("x"),
            session.write("x", b""),
            session.exec("true"),
            session.end_all_processes(),
        ):
            with pytest.raises(EnvironmentLostError):
                await operation


async def test_a_container_that_was_stopped_is_a_lost_environment(
    provider, opening, client: docker.DockerClient
) -> None:  # type: ignore[no-untyped-def]
    async with opening() as session:
        client.api.kill(session.handle.data["container"])
        with pytest.raises(EnvironmentLostError, match="ended with status 137"):
            await provider().attach(session.handle)
