"""``kill -9`` of the worker while work that is finished changes its place: a plan, files, tasks of another run.

Each launch runs once more without a kill; all at the same time, because most of the time they wait.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from command_line import CommandLine, Running, kill_and_wait, wait_for
from file_locks import held, wait_until_wanted
from gated_runs import make_command_line, start_gated
from gates import Gates
from reuse_runs import contents
from run_directory import assert_progress_is_whole, comparable

Calls = Counter[tuple[str, str, str]]
FAILING = ["bad1", "bad2", "bad3"]
RESTORED = {"upload_answer.txt", "upload_question.txt"}
NAMES = ["a plan and restored files", "another run's work", "failed tasks"]


@dataclass(frozen=True)
class Finished:
    """A run that came to its end, and the calls of its hooks."""

    run_dir: Path
    calls: Calls


@dataclass(frozen=True)
class Pair:
    """A run whose worker was killed, and the same run without."""

    quiet: Finished
    killed: Finished

    @property
    def repeated(self) -> Calls:
        """The calls beyond those of the quiet run.

        Without closings: a worker that starts also closes what it finds of other runs of this home.
        """
        more = self.killed.calls - self.quiet.calls
        return Counter({call: count for call, count in more.items() if call[1] != "close"})


class Stage:
    """Runs that share their results directory, each started from a folder of its own."""

    def __init__(self, home: Path, folder: Path) -> None:
        self._home = home
        self._folder = folder
        self._lines: list[CommandLine] = []

    def start(self, run_id: str, gates: Gates, *options: str, **more: Any) -> tuple[CommandLine, Running]:
        """Start a run of the gated components."""
        folder = self._folder / run_id
        folder.mkdir()
        command_line = make_command_line(self._home, folder)
        self._lines.append(command_line)
        own = ("--run-id", run_id, "--results-dir", str(self._folder / "results"))
        return command_line, start_gated(command_line, gates, *own, *options, **more)

    def gates(self, run_id: str) -> Gates:
        """Of a run."""
        return Gates(self._folder / f"gates-{run_id}")

    def run_dir(self, run_id: str) -> Path:
        """Of a run."""
        [found] = (self._folder / "results").glob(f"*/{run_id}")
        return found

    def both(self, story: Callable[[str, Gates], Running]) -> Pair:
        """Tell a story twice: as run ``quiet``, and as run ``killed``."""

        def tell(run_id: str) -> Finished:
            gates = self.gates(run_id)
            story(run_id, gates).wait().expect(0)
            return Finished(self.run_dir(run_id), gates.calls())

        with ThreadPoolExecutor(2) as pool:
            return Pair(*pool.map(tell, ("quiet", "killed")))

    def end_all(self) -> None:
        """For clean-up after a failure."""
        for line in self._lines:
            line.end_all()


@pytest.fixture(scope="module")
def pairs(embedded_home: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Pair]:
    """Every launch with and without its kills."""
    stories = dict(zip(NAMES, (restore, take_over, requeue), strict=True))

    def carry_out(name: str) -> Pair:
        stage = Stage(embedded_home, tmp_path_factory.mktemp("pair"))
        try:
            return stories[name](stage)
        finally:
            stage.end_all()

    with ThreadPoolExecutor(len(NAMES)) as pool:
        return dict(zip(NAMES, pool.map(carry_out, NAMES), strict=True))


def restore(stage: Stage) -> Pair:
    """Killed when a plan is written and not told yet, and when one of two files is restored."""

    def story(run_id: str, gates: Gates) -> Running:
        if run_id == "killed":
            gates.close("planned", "build_plan")
            gates.close("restored", "upload_question.txt")
        _, running = stage.start(run_id, gates, tasks=["planned", "restored"], benchmark="gated_fresh")
        if run_id == "quiet":
            return running
        worker = gates.wait("planned", "build_plan")
        state = stage.run_dir(run_id) / ".state"
        with held(state / "locks" / "progress.lock"):
            gates.open("planned", "build_plan")
            wait_for("the plan", (state / "work" / "planned" / "a1" / "plan.json").exists)
            kill_and_wait(worker)
        worker = gates.wait("restored", "upload_question.txt")
        kill_and_wait(worker)
        gates.open("restored", "upload_question.txt")
        return running

    return stage.both(story)


def take_over(stage: Stage) -> Pair:
    """Killed when an evaluation and a whole task are taken over, and the next task is looked at."""
    tasks, source_gates = ["judged", "done", "last", "running"], stage.gates("source")
    source_gates.close("judged", "evaluate")
    source_gates.close("running", "execute_task")
    command_line, source = stage.start(
        "source", source_gates, tasks=tasks, concurrency=4, benchmark="gated_fresh"
    )
    source_gates.wait("judged", "evaluate")
    source_gates.wait("running", "execute_task")
    source_dir = stage.run_dir("source")
    for task in ("done", "last"):
        wait_for("a finished task", (source_dir / "details" / f"{task}.json").exists)
    command_line.run("cancel", source.launch_id).expect(0)
    source.wait().expect(130)
    before = contents(source_dir)

    def story(run_id: str, gates: Gates) -> Running:
        if run_id == "killed":
            gates.close("last", "build_plan")
        _, running = stage.start(run_id, gates, "--reuse=source", tasks=tasks, benchmark="gated_fresh")
        if run_id == "quiet":
            return running
        worker = gates.wait("last", "build_plan")
        run_dir = stage.run_dir(run_id)
        assert [path.name for path in (run_dir / "details").glob("*.json")] == ["done.json"]
        assert (run_dir / ".state" / "evaluation" / "judged.a1.json").exists()
        kill_and_wait(worker)
        gates.open("last", "build_plan")
        return running

    pair = stage.both(story)
    assert contents(source_dir) == before
    return pair


def requeue(stage: Stage) -> Pair:
    """Killed when one of three failed tasks is queued again, and the next one is about to be."""

    def story(run_id: str, gates: Gates) -> Running:
        for task in FAILING:
            gates.spoil(task, "execute_task")
        gates.close("slow", "execute_task")
        # With a slot to spare: failed tasks are looked for when one of them can be executed.
        command_line, running = stage.start(run_id, gates, tasks=[*FAILING, "slow"], concurrency=2)
        worker = gates.wait("slow", "execute_task")
        details = stage.run_dir(run_id) / "details"
        for task in FAILING:
            wait_for("a failed task", (details / f"_error_{task}.json").exists)
        for task in FAILING:
            gates.mend(task, "execute_task")
        retry = ("retry", running.launch_id, "--failed")
        if run_id == "quiet":
            command_line.run(*retry).expect(0)
        else:
            # The lock under which records of this task are written: one of a few that all tasks share.
            locks = stage.run_dir(run_id) / ".state" / "locks"
            with held(locks / f"task-{zlib.crc32(b'bad2') % 64}.lock") as lock:
                asked = command_line.start(*retry)
                wait_until_wanted([lock])
                kill_and_wait(worker)
            assert not (details / "_error_bad1.json").exists()
            assert (details / "_error_bad2.json").exists()
            asked.wait().expect(0)
        gates.open("slow", "execute_task")
        return running

    return stage.both(story)


@pytest.mark.parametrize("name", NAMES)
def test_run_directory_equals_that_of_the_quiet_run(pairs: dict[str, Pair], name: str) -> None:
    pair = pairs[name]
    expected, found = comparable(pair.quiet.run_dir), comparable(pair.killed.run_dir)
    for part in expected:
        assert found[part] == expected[part], part
    assert_progress_is_whole(pair.killed.run_dir)


def test_a_plan_that_was_written_is_told_once_and_files_are_restored_again_from_the_first(
    pairs: dict[str, Pair],
) -> None:
    assert pairs["a plan and restored files"].repeated == {
        ("planned", "build_plan", "began"): 1,
        ("planned", "build_plan", "ended"): 1,
        ("restored", "upload_answer.txt", "began"): 1,
        ("restored", "upload_answer.txt", "ended"): 1,
        ("restored", "upload_question.txt", "began"): 1,
    }


def test_what_another_run_has_finished_is_taken_over_and_nothing_of_it_is_executed(
    pairs: dict[str, Pair],
) -> None:
    pair = pairs["another run's work"]
    assert {task for task, _, _ in pair.repeated} == {"request", "judged", "last"}
    assert {hook for _, hook, _ in pair.repeated} == {"load_tasks", "build_plan"}
    executed = {task: hooks_of(pair.killed.calls, task) for task in ("judged", "done", "last")}
    assert executed["done"] == executed["last"] == {"build_plan"}
    assert executed["judged"] == RESTORED | {"build_plan", "open", "close", "evaluate"}
    assert pair.killed.calls["running", "execute_task", "ended"] == 1


def test_each_failed_task_is_executed_once_more(pairs: dict[str, Pair]) -> None:
    pair = pairs["failed tasks"]
    assert {task for task, _, _ in pair.repeated} == {"slow"}
    for task in FAILING:
        assert pair.killed.calls[task, "execute_task", "began"] == 2
        assert pair.killed.calls[task, "evaluate", "ended"] == 1


def hooks_of(calls: Calls, task: str) -> set[str]:
    return {hook for name, hook, _ in calls if name == task}
