"""``agentcompass env``: what is listed, what is released, and what is not."""

from __future__ import annotations

from typing import Any

import pytest
from command_line import CommandLine, wait_for
from gated_runs import start_gated
from gates import Gates

ROWS = [{"id": "q1", "question": "2 + 2?", "answer": "4"}, {"id": "q2", "question": "2 + 3?", "answer": "5"}]


@pytest.fixture
def kept(command_line: CommandLine) -> str:
    """A launch that kept its two environments."""
    arguments = ("run", "qa", "oracle", "none", "--benchmark-params", command_line.dataset(ROWS))
    running = command_line.start(*arguments, "--keep-environment", "--progress", "plain")
    launch = running.launch_id
    running.wait().expect(0)
    return launch


def listed(command_line: CommandLine, *options: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = command_line.run("env", "list", "--json", *options).expect(0).json
    return found


def test_kept_environments_stay_until_their_launch_is_named(command_line: CommandLine, kept: str) -> None:
    found = listed(command_line, "--launch", kept)
    assert {(item["task"], item["state"], item["provider"]) for item in found} == {
        ("q1", "kept", "host_process"),
        ("q2", "kept", "host_process"),
    }
    assert all(item["age_seconds"] >= 0 and item["expires_in_seconds"] > 80_000 for item in found)
    [run_dir] = command_line.run_dirs
    assert {item["run_dir"] for item in found} == {str(run_dir)}

    names = {item["id"] for item in found}
    assert not names & set(command_line.run("env", "release", "--all-closed").expect(0).stdout.split())
    tried = command_line.run("env", "release", "--launch", kept, "--dry-run").expect(0).stdout
    assert all(f"{name} (kept, {kept} " in tried for name in names) and "would be removed" in tried
    assert len(listed(command_line, "--launch", kept)) == 2

    done = command_line.run("env", "release", "--launch", kept, "--json").expect(0).json
    assert set(done["released"]) == names and done["failed"] == {}
    assert listed(command_line, "--launch", kept) == []
    folder = command_line.home / "environments" / "host_process"
    assert not any((folder / name).exists() for name in names)
    again = command_line.run("env", "release", "--launch", kept).expect(0).stdout
    assert again == "No environment to remove; nothing to do.\n"


def test_one_environment_is_released_by_its_id_and_twice_is_no_error(
    command_line: CommandLine, kept: str
) -> None:
    first, second = [item["id"] for item in listed(command_line, "--launch", kept)]
    told = command_line.run("env", "release", first).expect(0).stdout
    assert told.startswith(f"{first} (kept, {kept} ") and told.endswith("): removed\n")
    assert [item["id"] for item in listed(command_line, "--launch", kept)] == [second]
    told = command_line.run("env", "release", first, second).expect(0).stdout
    assert f"{first}: there is no such environment any more; nothing to do." in told
    assert listed(command_line, "--launch", kept) == []


def test_an_environment_in_use_is_live_and_not_released_by_mistake(command_line: CommandLine) -> None:
    gates = Gates(command_line.folder / "gates")
    gates.close("only", "execute_task")
    running = start_gated(command_line, gates, tasks=["only"])
    gates.wait("only", "execute_task")
    launch = running.launch_id
    [live] = listed(command_line, "--launch", launch)
    assert (live["state"], live["task"], live["attempt"], live["provider"]) == ("live", "only", 1, "gated")
    of_provider = listed(command_line, "--launch", launch, "--env", "gated")
    assert [item["id"] for item in of_provider] == [live["id"]]
    assert listed(command_line, "--launch", launch, "--env", "host_process") == []
    table = command_line.run("env", "list").expect(0).stdout
    assert any(line.split()[:3] == [live["id"], "gated", "live"] for line in table.splitlines())

    for chosen in ([live["id"]], ["--launch", launch]):
        refused = command_line.run("env", "release", *chosen).expect(2)
        assert "not over" in refused.stderr and "--force" in refused.stderr
    command_line.run("env", "release", "--all-closed").expect(0)
    assert (command_line.home / "environments" / "host_process" / live["id"]).is_dir()

    command_line.run("env", "release", live["id"], "--force", env=gates.env).expect(0)
    assert not (command_line.home / "environments" / "host_process" / live["id"]).exists()
    running.interrupt()
    running.wait()


def test_wrong_use_is_told(command_line: CommandLine) -> None:
    assert "give ids, --all-closed or --launch" in command_line.run("env", "release").expect(2).stderr
    both = command_line.run("env", "release", "some-id", "--all-closed").expect(2)
    assert "give ids, --all-closed or --launch" in both.stderr
    assert "hots_process" in command_line.run("env", "list", "--env", "hots_process").expect(2).stderr


def test_a_launch_leaves_no_environment_and_no_ledger(command_line: CommandLine) -> None:
    arguments = ("run", "qa", "oracle", "none", "--benchmark-params", command_line.dataset(ROWS))
    command_line.run(*arguments).expect(0)
    [run_dir] = command_line.run_dirs
    wait_for("an empty ledger", lambda: not list((run_dir / ".state" / "environments").glob("*")))
