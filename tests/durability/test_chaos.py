"""A launch of 300 attempts on two workers, one of which, or the server, is killed every few seconds."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import CommandLine, Running, is_alive, kill_and_wait, living_worker, processes_of, wait_for
from gated_runs import CONFIG, QUICK_HEARTBEAT, make_command_line
from run_directory import assert_progress_is_whole, comparable, events

ATTEMPTS = 300
CONCURRENCY = 8
SEED = 20261130
ROUNDS = 4
SECONDS_BETWEEN = (1.5, 4.0)


def dataset(command_line: CommandLine) -> str:
    """Commands that note when they begin and end, and whether their task was finished already."""
    ledger, details = command_line.folder / "ledger", command_line.results / "none_command_none/run/details"
    rows = []
    for number in range(ATTEMPTS):
        name = f"t{number:03d}"
        late = f"if test -e {details}/{name}.json; then echo late {name} >> {ledger}; fi"
        work = f"echo began {name} >> {ledger}; sleep 0.1; echo {number}; echo ended {name} >> {ledger}"
        rows.append({"id": name, "command": f"{late}; {work}", "expected_stdout": str(number)})
    return command_line.dataset(rows)


def start_run(command_line: CommandLine) -> Running:
    config = command_line.folder / "config.yaml"
    config.write_text(CONFIG.format(heartbeat_timeout_seconds=QUICK_HEARTBEAT), encoding="utf-8")
    return command_line.start(
        *("run", "command", "none", "none", "--env", "host_process", "--config", str(config)),
        *("--benchmark-params", dataset(command_line), "--task-concurrency", str(CONCURRENCY)),
        *("--run-id", "run"),
    )


def ledger_of(command_line: CommandLine) -> Counter[str]:
    return Counter((command_line.folder / "ledger").read_text(encoding="utf-8").splitlines())


def results(run_dir: Path) -> dict[str, Any]:
    """What must be the same, without times and the names of folders in commands."""
    found = comparable(run_dir)
    return {
        "answers": {name: answer(record) for name, record in found["details"].items()},
        "metrics": found["metrics"],
        "progress": found["progress"],
        "files": found["files"],
        "events": Counter(
            tuple(event.get(name) for name in ("event", "task_id", "attempt", "phase", "status"))
            for event in events(run_dir)
        ),
    }


def answer(record: dict[str, Any]) -> dict[str, Any]:
    """What a task's only attempt came to."""
    attempt = record["attempts"]["1"]
    return {name: attempt[name] for name in ("status", "metrics", "final_answer", "issues")}


class Chaos:
    """Two workers of a launch, and the server; kills one of them now and then."""

    def __init__(self, command_line: CommandLine, running: Running) -> None:
        self._chance = random.Random(SEED)
        self._command_line = command_line
        self._launch = running.launch_id
        self._running = running
        self._second = self._start_second()
        self.kills: Counter[str] = Counter()

    def go_on(self) -> None:
        """Until the run is over, or enough is killed."""
        for victim in self._victims():
            pause = self._chance.uniform(*SECONDS_BETWEEN)
            deadline = time.monotonic() + pause
            while self._running.alive and time.monotonic() < deadline:
                time.sleep(0.05)  # the pause between two kills is what this test is about
            if self._running.alive:
                self._kill(victim)

    def _victims(self) -> Iterator[str]:
        """Each as often as the others, in random order: a worker that dies too often is given up on."""
        for _ in range(ROUNDS):
            yield from self._chance.sample(["first worker", "second worker", "server"], 3)

    def end(self) -> None:
        self._second.end()

    def _kill(self, victim: str) -> None:
        if victim == "second worker":
            self._second.kill()
            self._second = self._start_second()
        elif victim == "first worker":
            pid = living_worker(self._command_line.home, self._launch)
            if pid is None:
                return  # the last kill of it was not noticed yet
            kill_and_wait(pid)
        else:
            before = self._command_line.server_pid
            if not is_alive(before):
                return
            kill_and_wait(before)
            wait_for("another server", lambda: self._command_line.server_pid != before)
        self.kills[victim] += 1

    def _start_second(self) -> Running:
        return self._command_line.start(
            *("worker", "--private", "--task-queue", f"launch/{self._launch}"),
            *("--concurrency", "16", "--until-closed", self._launch),
        )


@pytest.fixture(scope="module")
def quiet(embedded_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandLine]:
    command_line = make_command_line(embedded_home, tmp_path_factory.mktemp("quiet"))
    start_run(command_line).wait(300).expect(0)
    yield command_line
    command_line.end_all()


@pytest.fixture(scope="module")
def disturbed(
    embedded_home: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[CommandLine, Counter[str]]]:
    command_line = make_command_line(embedded_home, tmp_path_factory.mktemp("chaos"))
    running = start_run(command_line)
    chaos = Chaos(command_line, running)
    try:
        chaos.go_on()
        ended = running.wait(400).expect(0)
        assert ended.stdout.startswith("Result:"), ended.stdout  # and nothing of the SDK's before it
        wait_for("the workers' leaving", lambda: not processes_of(embedded_home))
        yield command_line, chaos.kills
    finally:
        chaos.end()
        command_line.end_all()


def test_something_was_killed(disturbed: tuple[CommandLine, Counter[str]]) -> None:
    assert disturbed[1].total() >= 4, disturbed[1]


def test_results_equal_those_of_the_quiet_run(
    quiet: CommandLine, disturbed: tuple[CommandLine, Counter[str]]
) -> None:
    [expected], [found] = quiet.run_dirs, disturbed[0].run_dirs
    wanted, got = results(expected), results(found)
    for part, value in wanted.items():
        assert got[part] == value, part
    assert_progress_is_whole(found)


def test_nothing_that_had_finished_is_executed_again(
    quiet: CommandLine, disturbed: tuple[CommandLine, Counter[str]]
) -> None:
    assert set(ledger_of(quiet).values()) == {1}
    command_line, kills = disturbed
    ledger = ledger_of(command_line)
    assert not [line for line in ledger if line.startswith("late")]
    repeated = {line: count for line, count in ledger.items() if line.startswith("ended") and count > 1}
    # A command that had ended is repeated only when its worker died before it could say so.
    assert sum(repeated.values()) - len(repeated) <= kills.total() * CONCURRENCY
    assert len(repeated) < ATTEMPTS // 4


def test_no_environment_is_left_behind(disturbed: tuple[CommandLine, Counter[str]]) -> None:
    command_line, _ = disturbed
    folder = command_line.home / "environments" / "host_process"
    assert [path.name for path in folder.glob("ac-t[0-9][0-9][0-9]-*")] == []
