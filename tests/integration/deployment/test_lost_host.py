"""Two machines serve one queue, and one of them never comes back."""

from __future__ import annotations

import json
import os
from pathlib import Path

from cluster import Cluster
from command_line import Running, kill_and_wait
from gates import Gates
from run_directory import events

ANOTHER_HOST = Path(__file__).parents[2] / "support" / "another_host"
LOST_AFTER = 5
RUNTIME = (
    f"runtime: {{heartbeat_timeout_seconds: 2, host_lost_after_seconds: {LOST_AFTER}, progress: plain}}\n"
)


def on(cluster: Cluster, gates: Gates, name: str) -> dict[str, str]:
    """Variables of a process that believes to be on a machine of its own."""
    paths = [str(ANOTHER_HOST), cluster.command_line.env["PYTHONPATH"]]
    return {**gates.env, "TEST_HOST_NAME": name, "PYTHONPATH": os.pathsep.join(paths)}


def host(cluster: Cluster, gates: Gates, name: str) -> Running:
    """A worker on a machine of its own."""
    return cluster.worker(env=on(cluster, gates, name))


def test_an_attempt_whose_host_is_gone_for_good_ends_on_the_other_one(
    cluster: Cluster, tmp_path: Path
) -> None:
    gates, config = Gates(tmp_path / "gates"), tmp_path / "runtime.yaml"
    config.write_text(RUNTIME)
    gates.close("lost", "execute_task")
    command_line = cluster.command_line
    hosts = {host(cluster, gates, name).pid: name for name in ("first", "second")}
    run = command_line.start(
        *("run", "gated", "gated", "none", "--env", "gated", "--config", str(config)),
        *("--benchmark-params", json.dumps({"tasks": ["lost"]}), "--json"),
        env=gates.env,
    )
    gone = gates.wait("lost", "execute_task")
    kill_and_wait(gone)

    gates.open("lost", "execute_task")
    ended = run.wait().expect(0).json
    [request] = ended["requests"]
    [other] = hosts.keys() - {gone}
    assert [
        entry.pid for entry in gates.entries() if (entry.hook, entry.what) == ("execute_task", "ended")
    ] == [other]
    run_dir = Path(request["run_dir"])
    [lost] = [event for event in events(run_dir) if event["event"] == "attempt_retry"]
    assert (lost["payload"]["loss"], lost["payload"]["matched_pattern"]) == (1, "host_lost")
    record = json.loads((run_dir / lost["payload"]["retry_detail"]).read_bytes())
    assert (record["loss"], record["retry"], record["max_retries"]) == (1, 0, 0)
    [details] = (run_dir / "details").glob("*.json")
    assert json.loads(details.read_bytes())["retry_count"] == 0

    # The machine comes back, and what it had is removed there.
    left = ("env", "release", "--launch", ended["launch_id"], "--json")
    released = command_line.run(*left, env=on(cluster, gates, hosts[gone])).expect(0)
    assert len(released.json["released"]) == 1, released.json
