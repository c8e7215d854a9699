"""Every command as a shell starts it, and that forks, as which other tests start them, are like that.

See ``support/warm_start.py``.
"""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import typer
from command_line import CommandLine, is_alive, wait_for
from gated_runs import make_command_line, start_gated
from gates import Gates
from warm_start import COLD_VARIABLE, subprocess_for

from agentcompass.cli.main import app

COMMANDS = [
    ("status {launch}", 0, "completed"),
    ("list", 0, "{launch}"),
    ("attach {launch}", 0, "Status: completed"),
    ("cancel {launch}", 0, "over already"),
    ("pause {launch}", 0, "over already"),
    ("resume {launch}", 0, "over already"),
    ("set {launch} task-concurrency=3", 0, "over already"),
    ("retry {launch} --failed", 0, "nothing to do"),
    ("logs q1 --run-dir {run}", 0, "ended: completed"),
    ("end q1", 2, "not running"),
    ("export {run} --format atif", 0, "atif"),
    ("view {run}", 0, "Report: "),
    ("compare {run} {run}", 0, "1 equal"),
    ("analysis {run}", 0, "Run directory: "),
    ("summary {run}", 0, "Status: completed"),
    ("schedule list", 0, "SCHEDULE"),
    ("env list", 0, "ENVIRONMENT"),
    ("pool list", 0, "CAPACITY"),
    ("setup", 0, "Search attributes"),
    ("doctor", 0, "Python"),
    ("config show", 0, "runtime."),
    ("server status", 0, "running: "),
    ("launch plan.yaml --dry-run", 0, "oracle"),
    ("worker --task-queue", 2, "requires an argument"),
    ("codec-server --origin http://ui", 2, "AGENTCOMPASS_PAYLOAD_KEY"),
]


@dataclass
class Finished:
    """A run that was started cold, and its launch."""

    command_line: CommandLine
    launch: str

    @property
    def run(self) -> str:
        return str(self.command_line.run_dirs[0])


@pytest.fixture(scope="module")
def finished(embedded_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Finished]:
    command_line = make_command_line(embedded_home, tmp_path_factory.mktemp("cold"))
    command_line.cold = True
    dataset = command_line.dataset([{"id": "q1", "question": "2 + 2?", "answer": "4"}])
    benchmark = {"id": "qa", **json.loads(dataset)}
    request = {"name": "one", "benchmark": benchmark, "harness": {"id": "oracle"}, "model": {"id": "none"}}
    plan = {"version": 1, "requests": [request]}
    (command_line.folder / "plan.yaml").write_text(json.dumps(plan), encoding="utf-8")
    ended = command_line.run("run", "qa", "oracle", "none", "--benchmark-params", dataset, "--json").expect(0)
    yield Finished(command_line, ended.json["launch_id"])
    command_line.end_all()


@pytest.mark.parametrize(("command", "code", "said"), COMMANDS, ids=[line[0].split()[0] for line in COMMANDS])
def test_a_command_does_its_work_in_a_process_of_its_own(
    finished: Finished, command: str, code: int, said: str
) -> None:
    names = {"launch": finished.launch, "run": finished.run}
    ended = finished.command_line.run(*command.format(**names).split()).expect(code)
    assert said.format(**names) in ended.stdout + ended.stderr


def test_no_command_is_left_out() -> None:
    group = typer.main.get_command(app)
    names = {line[0].split()[0] for line in COMMANDS} | {"run"}
    assert names == set(group.commands)


@pytest.fixture
def warm(command_line: CommandLine, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    monkeypatch.delenv(COLD_VARIABLE, raising=False)
    if subprocess_for(command_line.env) is subprocess:
        pytest.skip("no forks on this system")
    return command_line


def test_a_fork_has_exit_code_streams_and_folder_of_its_own(warm: CommandLine) -> None:
    warm.dataset([{"id": "q1", "question": "2 + 2?", "answer": "4"}])
    ended = warm.run("run", "qa", "oracle", "none", "--benchmark-params", '{"path": "tasks.jsonl", "x": 1}')
    assert (ended.code, ended.stdout) == (2, "")
    assert "x: unknown key" in ended.stderr
    assert warm.run("--version").expect(0).stdout.startswith("agentcompass ")


def test_a_fork_and_its_worker_show_their_own_arguments_and_variables(warm: CommandLine) -> None:
    gates = Gates(warm.folder / "gates")
    gates.close("only", "execute_task")
    warm.env["TEST_OF_FORKS"] = "seen by others"
    running = start_gated(warm, gates, tasks=["only"])
    gates.wait("only", "execute_task")
    for pid, argument in ((running.pid, "run"), (running.worker_pid, "worker")):
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        assert arguments[1:4] == [b"-m", b"agentcompass.cli.main", argument.encode()]
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        assert b"TEST_OF_FORKS=seen by others" in variables
        assert f"AGENTCOMPASS_HOME={warm.home}".encode() in variables
    gates.open("only", "execute_task")
    running.wait().expect(0)


def test_a_killed_fork_is_gone_and_its_worker_goes_on(warm: CommandLine) -> None:
    gates = Gates(warm.folder / "gates")
    gates.close("only", "execute_task")
    running = start_gated(warm, gates, tasks=["only"])
    worker = gates.wait("only", "execute_task")
    running.kill()
    assert running.wait().code == -signal.SIGKILL
    assert not is_alive(running.pid) and is_alive(worker)
    gates.open("only", "execute_task")
    wait_for("the worker's leaving", lambda: not is_alive(worker))
