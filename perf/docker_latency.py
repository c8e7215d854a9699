"""What a container of ours costs beside one of the plain Docker SDK, in the same session.

``python perf/docker_latency.py IMAGE [ROUNDS]``. The image must be on the engine and have ``sh`` and ``sleep``.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
import uuid
from collections.abc import Coroutine
from typing import Any

import docker

from agentcompass.contracts import EnvironmentSession, EnvironmentSpec, NetworkPolicy, OpenRequest
from agentcompass.plugins.environments.docker import Docker, DockerParams

COMMANDS = 5
COMMAND = "true"


async def timed(work: Coroutine[Any, Any, Any]) -> tuple[float, Any]:
    """Seconds, and what the work returned; it begins here."""
    began = time.perf_counter()
    result = await work
    return time.perf_counter() - began, result


async def ours(provider: Docker) -> EnvironmentSession:
    """Open to ready: the first command has run."""
    request = OpenRequest(
        environment_id=f"ac-perf-{uuid.uuid4().hex[:12]}",
        spec=EnvironmentSpec(id="docker"),
        network_policy=NetworkPolicy(),
        labels={"launch": "perf"},
    )
    session = await provider.open(request)
    await session.exec(COMMAND)
    return session


async def plain(client: docker.DockerClient, image: str) -> Any:
    """The same with the SDK alone, in the same network."""

    def start() -> Any:
        container = client.containers.run(image, ["sleep", "600"], detach=True, network="agentcompass")
        container.exec_run(["sh", "-c", COMMAND])
        return container

    return await asyncio.to_thread(start)


async def main(image: str, rounds: int) -> None:
    """Take turns, so that a busy machine is busy for both."""
    client, provider = docker.from_env(), Docker(DockerParams(image=image, pull="never"))
    await provider.close((await ours(provider)).handle)  # makes the network
    figures: dict[str, tuple[list[float], list[float]]] = {"open to ready": ([], []), "command": ([], [])}
    for _ in range(rounds):
        seconds, session = await timed(ours(provider))
        figures["open to ready"][0].append(seconds)
        seconds, container = await timed(plain(client, image))
        figures["open to ready"][1].append(seconds)
        for _ in range(COMMANDS):
            figures["command"][0].append((await timed(session.exec(COMMAND)))[0])
            run = asyncio.to_thread(container.exec_run, ["sh", "-c", COMMAND])
            figures["command"][1].append((await timed(run))[0])
        await provider.close(session.handle)
        container.remove(force=True)
    print("| figure | ours (ms) | plain SDK (ms) | ratio |\n|---|---|---|---|")
    for name, pair in figures.items():
        one, other = (statistics.median(values) * 1000 for values in pair)
        print(f"| {name} | {one:.0f} | {other:.0f} | {one / other:.2f} |")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 10))
