"""Limits of a provider over all launches, through the real command line and two launches at a time."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from activity_fakes import FakeActivities
from command_line import CommandLine, kill_and_wait, wait_for
from gated_runs import start_gated, terminate_launch
from gates import Gates
from workflow_server import stage

from agentcompass.activities.data_converter import data_converter
from agentcompass.activities.places import Places
from agentcompass.cli.connection import ConnectionConfig, connect
from agentcompass.contracts.pool import LeaseRequest, PoolChange, PoolSettings, PoolState
from agentcompass.contracts.workflows import (
    NAMESPACE,
    POOL_LIMITS_SIGNAL,
    POOL_WORKFLOW,
    PoolInput,
)


def pools(command_line: CommandLine) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = command_line.run("pool", "list", "--json").expect(0).json
    return found


def waiting(command_line: CommandLine) -> dict[str, int]:
    [pool] = pools(command_line)
    found: dict[str, int] = pool["status"]["waiting"]
    return found


def test_two_launches_share_one_place_and_a_dead_holder_frees_it(secluded: CommandLine) -> None:
    told = secluded.run("pool", "set", "gated", "--capacity", "1").expect(0).stdout
    assert told == "gated: at most 1 open, opened at any rate\n"
    [pool] = pools(secluded)
    assert (pool["served"], pool["status"]["settings"]["capacity"]) == (False, 1)

    gates = Gates(secluded.folder / "gates")
    gates.close("holder", "execute_task")
    first = start_gated(secluded, gates, "--run-id", "first", tasks=["holder"])
    gates.wait("holder", "execute_task")
    second = start_gated(secluded, gates, "--run-id", "second", tasks=["one", "two"], concurrency=2)
    wait_for("both to wait", lambda: waiting(secluded) == {second.launch_id: 2})
    assert ("one", "open", "began") not in gates.calls()

    launch, workers = first.launch_id, (first.worker_pid, second.worker_pid)
    first.kill()
    for pid in workers:
        kill_and_wait(pid)  # they served the pool; the next worker of the second launch has to
    terminate_launch(secluded, launch)
    second.wait().expect(0)
    opened = [
        entry for entry in gates.entries() if entry.task in ("one", "two") and entry.hook in ("open", "close")
    ]
    inside = 0
    for entry in opened:
        inside += (entry.hook, entry.what) == ("open", "began")
        assert inside <= 1, opened
        inside -= (entry.hook, entry.what) == ("close", "ended")


def test_limits_are_set_one_by_one_and_switched_off(secluded: CommandLine) -> None:
    secluded.run("pool", "set", "host_process", "--open-qps", "50").expect(0)
    done = secluded.run("pool", "set", "host_process", "--capacity", "3", "--json").expect(0).json
    assert done == {"capacity": 3, "open_per_second": 50.0}
    rows = [{"id": f"q{number}", "question": "?", "answer": "1"} for number in range(6)]
    run = ("run", "qa", "oracle", "none", "--benchmark-params", secluded.dataset(rows))
    assert "6/6 tasks evaluated" in secluded.run(*run).expect(0).stdout
    off = secluded.run("pool", "set", "host_process", "--capacity", "0", "--open-qps", "0").expect(0).stdout
    assert off == "host_process: no limits\n"
    secluded.run(*run).expect(0)
    wait_for("the end of the pool", lambda: pools(secluded) == [])
    again = secluded.run("pool", "set", "host_process", "--capacity", "0").expect(0).stdout
    assert again == "host_process has no limits; nothing to do.\n"


def test_wrong_use_is_told(secluded: CommandLine) -> None:
    assert "hots_process" in secluded.run("pool", "set", "hots_process", "--capacity", "1").expect(2).stderr
    assert "--capacity, --open-qps" in secluded.run("pool", "set", "host_process").expect(2).stderr


async def test_a_pool_that_continues_as_new_loses_no_lease_and_has_no_place_twice(
    embedded_home: Path,
) -> None:
    """On the real server: 80 attempts of two launches, 4 places, a new run of the workflow every 40 events."""
    connection = await connect(
        ConnectionConfig("embedded", NAMESPACE, None), data_converter=data_converter(), home=embedded_home
    )
    inside, most, taken = 0, 0, 0
    async with stage(connection.client, FakeActivities()) as scene:
        pool = await connection.client.start_workflow(
            POOL_WORKFLOW,
            PoolInput(
                provider="box", state=PoolState(settings=PoolSettings(capacity=4)), continue_as_new_after=40
            ),
            id=f"pool/{scene.launch_id}",
            task_queue=scene.queue,
        )
        current = connection.client.get_workflow_handle(pool.id)
        processes = [Places(connection.client), Places(connection.client)]

        async def attempt(number: int) -> None:
            nonlocal inside, most, taken
            name, environment, places = f"w{number}", f"env{number}", processes[number % 2]
            request = LeaseRequest(workflow_id=name, launch=f"launch{number % 2}", environment_id=environment)
            assert await places.take(scene.launch_id, request) is not None
            inside, taken = inside + 1, taken + 1
            most = max(most, inside)
            await asyncio.sleep(0)
            inside -= 1  # it is gone before the pool hears of it
            await places.give_back(scene.launch_id, name, environment)

        await asyncio.wait_for(asyncio.gather(*map(attempt, range(80))), 120)
        await current.signal(POOL_LIMITS_SIGNAL, PoolChange(capacity=0))
        await current.result()
        runs = [item async for item in connection.client.list_workflows(f"WorkflowId = '{pool.id}'")]
    assert taken == 80
    assert 1 <= most <= 4  # how many meet inside depends on the machine
    assert len(runs) > 2
