"""``kill -9`` of the worker in every phase: nothing that had finished runs again.

Three launches are killed four times each, at the same time, because most of the time they wait.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from command_line import CommandLine, Ended, Running, kill_and_wait, wait_for
from file_locks import all_held, held, wait_until_wanted
from gated_runs import TASKS, make_command_line, run_gated, start_gated
from gates import Gates
from run_directory import assert_progress_is_whole, comparable

Kill = Callable[[CommandLine, Gates, Running], None]


@dataclass(frozen=True)
class Finished:
    """A run that came to its end."""

    run_dir: Path
    calls: Counter[tuple[str, str, str]]
    ended: Ended


def in_hook(task: str, hook: str) -> Kill:
    """Kill the worker while it is in a hook of an extension."""

    def kill(command_line: CommandLine, gates: Gates, running: Running) -> None:
        kill_and_wait(gates.wait(task, hook))
        gates.open(task, hook)

    return kill


def before_the_record(command_line: CommandLine, gates: Gates, running: Running) -> None:
    """Kill the worker when it is about to write the record of task ``save``."""
    worker = gates.wait("save", "close")
    [run_dir] = command_line.run_dirs
    locks = [run_dir / ".state" / "locks" / f"task-{number}.lock" for number in range(64)]
    with all_held(locks) as inodes:
        gates.open("save", "close")
        wait_until_wanted(inodes)
        kill_and_wait(worker)
    assert not (run_dir / "details" / "save.json").exists()


def between_record_and_events(command_line: CommandLine, gates: Gates, running: Running) -> None:
    """Kill the worker when the record of task ``announce`` is written and its events are not."""
    worker = gates.wait("announce", "close")
    [run_dir] = command_line.run_dirs
    with held(run_dir / ".state" / "locks" / "progress.lock"):
        gates.open("announce", "close")
        wait_for("the record", (run_dir / "details" / "announce.json").exists)
        kill_and_wait(worker)


@dataclass(frozen=True)
class Plan:
    """The kills of one launch, in the order in which they come up."""

    gates: list[tuple[str, str]]
    kills: list[Kill]
    repeated: dict[tuple[str, str, str], int]
    """Calls beyond those of an undisturbed run."""


def began(task: str, hook: str) -> dict[tuple[str, str, str], int]:
    return {(task, hook, "began"): 1}


PLANS = {
    "before the agent": Plan(
        gates=[
            ("request", "load_tasks"),
            ("plan", "build_plan"),
            ("open", "open"),
            ("prepare", "prepare_task"),
        ],
        kills=[
            in_hook("request", "load_tasks"),
            in_hook("plan", "build_plan"),
            in_hook("open", "open"),
            in_hook("prepare", "prepare_task"),
        ],
        repeated={
            **began("request", "load_tasks"),
            **began("plan", "build_plan"),
            **began("open", "open"),
            **began("prepare", "prepare_task"),
        },
    ),
    "the agent and its judge": Plan(
        gates=[
            ("start", "start_session"),
            ("run", "execute_task"),
            ("collect", "collect_artifacts"),
            ("evaluate", "evaluate"),
        ],
        kills=[
            in_hook("start", "start_session"),
            in_hook("run", "execute_task"),
            in_hook("collect", "collect_artifacts"),
            in_hook("evaluate", "evaluate"),
        ],
        repeated={
            **began("start", "start_session"),
            # One activity: the session is started again, the turns that were taken are not.
            **began("run", "start_session"),
            ("run", "start_session", "ended"): 1,
            **began("run", "execute_task"),
            **began("collect", "collect_artifacts"),
            **began("evaluate", "evaluate"),
        },
    ),
    "after the verdict": Plan(
        gates=[
            ("close", "close"),
            ("save", "close"),
            ("announce", "close"),
            ("request", "aggregate_metrics"),
        ],
        kills=[
            in_hook("close", "close"),
            before_the_record,
            between_record_and_events,
            in_hook("request", "aggregate_metrics"),
        ],
        repeated={**began("close", "close"), **began("request", "aggregate_metrics")},
    ),
}


@pytest.fixture(scope="module")
def undisturbed(embedded_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """The same run without a kill."""
    with launched(embedded_home, tmp_path_factory.mktemp("undisturbed")) as command_line:
        gates = Gates(command_line.folder / "gates")
        ended = run_gated(command_line, gates).expect(0)
        return Finished(command_line.run_dirs[0], gates.calls(), ended)


@pytest.fixture(scope="module")
def killed(embedded_home: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Finished]:
    """Every plan carried out."""

    def carry_out(name: str) -> Finished:
        plan = PLANS[name]
        with launched(embedded_home, tmp_path_factory.mktemp("killed")) as command_line:
            gates = Gates(command_line.folder / "gates")
            for gate in plan.gates:
                gates.close(*gate)
            running = start_gated(command_line, gates)
            for kill in plan.kills:
                kill(command_line, gates, running)
            ended = running.wait().expect(0)
            return Finished(command_line.run_dirs[0], gates.calls(), ended)

    with ThreadPoolExecutor(len(PLANS)) as pool:
        return dict(zip(PLANS, pool.map(carry_out, PLANS), strict=True))


@contextmanager
def launched(home: Path, folder: Path) -> Iterator[CommandLine]:
    command_line = make_command_line(home, folder)
    try:
        yield command_line
    finally:
        command_line.end_all()


def test_an_undisturbed_run_calls_every_hook_once(undisturbed: Finished) -> None:
    assert set(undisturbed.calls.values()) == {1}
    assert {task for task, hook, _ in undisturbed.calls if hook == "evaluate"} == set(TASKS)


@pytest.mark.parametrize("name", PLANS)
def test_run_directory_equals_that_of_an_undisturbed_run(
    name: str, undisturbed: Finished, killed: dict[str, Finished]
) -> None:
    expected, found = comparable(undisturbed.run_dir), comparable(killed[name].run_dir)
    for part in expected:
        assert found[part] == expected[part], part
    assert_progress_is_whole(killed[name].run_dir)


@pytest.mark.parametrize("name", PLANS)
def test_only_the_activity_that_was_running_is_repeated(
    name: str, undisturbed: Finished, killed: dict[str, Finished]
) -> None:
    assert killed[name].calls - undisturbed.calls == PLANS[name].repeated
    assert undisturbed.calls - killed[name].calls == {}


@pytest.mark.parametrize("name", PLANS)
def test_the_command_says_that_it_started_another_worker(name: str, killed: dict[str, Finished]) -> None:
    assert killed[name].ended.stderr.count("The worker was gone; started another one") == 4


def test_quick_tasks_in_flight_together_survive_a_killed_worker(command_line: CommandLine) -> None:
    """Built-in components: their phases take part in the workflow's own tasks, many at a time."""
    rows = [{"id": f"q{number}", "question": "?", "answer": str(number)} for number in range(60)]
    arguments = ["run", "qa", "oracle", "none", "--benchmark-params", command_line.dataset(rows)]
    arguments += ["--task-concurrency", "8", "--progress", "plain"]
    command_line.run(*arguments, "--run-id", "undisturbed").expect(0)

    running = command_line.start(*arguments, "--run-id", "killed")
    [undisturbed] = command_line.results.glob("*/undisturbed")
    killed = undisturbed.with_name("killed")
    wait_for("a finished task", lambda: list((killed / "details").glob("*.json")))
    kill_and_wait(running.worker_pid)
    assert len(list((killed / "details").glob("*.json"))) < len(rows)
    running.wait().expect(0)

    expected, found = comparable(undisturbed), comparable(killed)
    for part in expected:
        assert found[part] == expected[part], part
    assert_progress_is_whole(killed)


def test_no_environment_is_left(killed: dict[str, Finished], embedded_home: Path, tmp_path: Path) -> None:
    """Of these launches: others of the session share the home, and some keep their environments."""
    command_line = make_command_line(embedded_home, tmp_path)
    launches = {
        json.loads((run.run_dir / "run_info.json").read_bytes())["launch_id"] for run in killed.values()
    }

    def none_is_left() -> bool:  # a worker that leaves removes what others left, and leaves last
        listed = command_line.run("env", "list", "--json").expect(0).json
        return not [item for item in listed if item["launch"] in launches]

    wait_for("the end of all environments", none_is_left)
