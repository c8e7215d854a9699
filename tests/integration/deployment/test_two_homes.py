"""Two users of one machine serve one queue, each with a home of their own."""

from __future__ import annotations

from pathlib import Path

from cluster import Cluster

HOMES = ("home", "another")
MEETING = """
for folder in {homes}; do case $PWD in "{folder}/$folder"/*) touch "{folder}/$folder.came" ;; esac; done
for folder in {homes}; do until [ -e "{folder}/$folder.came" ]; do sleep 0.05; done; done
"""


def test_each_one_carries_out_what_is_in_environments_of_their_own(cluster: Cluster, tmp_path: Path) -> None:
    command = MEETING.format(homes=" ".join(HOMES), folder=tmp_path)
    for name in HOMES:
        cluster.worker(env={"AGENTCOMPASS_HOME": str(tmp_path / name)})
    rows = [{"id": f"t{number}", "command": command} for number in range(12)]
    dataset = cluster.command_line.dataset(rows, "commands.jsonl")
    done = cluster.command_line.run(
        *("run", "command", "none", "none", "--env", "host_process", "--task-concurrency", "12"),
        *("--benchmark-params", dataset, "--progress", "none", "--json"),
    ).expect(0)
    [request] = done.json["requests"]
    assert (request["status"], request["evaluated_tasks"]) == ("completed", 12)
    assert all((tmp_path / f"{name}.came").exists() for name in HOMES)
