"""``--reuse`` by the real command line, on the embedded server."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import CommandLine, Ended, Running, wait_for
from reuse_runs import contents

SUPPORT = Path(__file__).parents[1] / "support"
TASKS = {"a": "A", "b": "B", "c": "C"}


class Stage:
    """A command line whose benchmark does as it is told; see ``staged_evaluation/stage.py``."""

    def __init__(self, home: Path, folder: Path) -> None:
        self.folder = folder / "stage"
        self.folder.mkdir()
        package = str(SUPPORT / "staged_package")
        env = {**os.environ, "PYTHONPATH": package, "AGENTCOMPASS_TEST_STAGE": str(self.folder)}
        self.command_line = CommandLine(home, folder, env)

    def start(self, *options: str, tasks: dict[str, str] = TASKS, **params: Any) -> Running:
        """Start a run of ``tasks``."""
        return self.command_line.start(
            *("run", "staged", "none", "none", "--env", "host_process", "--progress", "plain"),
            *("--benchmark-params", json.dumps({"tasks": tasks, **params})),
            *options,
        )

    def run(self, *options: str, tasks: dict[str, str] = TASKS, **params: Any) -> Ended:
        """The same to its end; what was called before is forgotten."""
        (self.folder / "ledger").unlink(missing_ok=True)
        return self.start(*options, tasks=tasks, **params).wait()

    def tell(self, name: str, how: str) -> None:
        """``tell("b.evaluate", "fatal")``"""
        file = self.folder / f"{name}.new"
        file.write_text(how)
        file.replace(self.folder / name)

    def forget(self) -> None:
        """Everything ends well from now on."""
        for file in self.folder.iterdir():
            if file.name != "ledger":
                file.unlink()

    def calls(self) -> list[str]:
        """``run a 1`` for the first attempt of task a, and so on, sorted."""
        ledger = self.folder / "ledger"
        return sorted(ledger.read_text().splitlines()) if ledger.exists() else []

    @property
    def run_dirs(self) -> list[Path]:
        return self.command_line.run_dirs

    @property
    def latest(self) -> Path:
        return self.run_dirs[-1]


@pytest.fixture
def stage(embedded_home: Path, tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(embedded_home, tmp_path)
    yield stage
    stage.command_line.end_all()


def read(run_dir: Path, name: str) -> Any:
    return json.loads((run_dir / name).read_bytes())


def log(run_dir: Path) -> str:
    return "".join(file.read_text() for file in (run_dir / "logs").iterdir())


def test_reuse_repairs_what_failed_and_reports_what_it_took_over(stage: Stage) -> None:
    stage.tell("a.run", "fatal")
    stage.tell("b.run", "error")
    stage.tell("c.run", "warning")
    stage.run().expect(1)
    old = stage.latest
    before = contents(old)
    stage.forget()

    stage.run("--reuse").expect(0)
    new = stage.latest
    assert stage.calls() == ["evaluate a 1", "run a 1"]
    assert contents(old) == before
    assert read(new, "run_info.json")["reused_from"] == {"run_id": old.name, "path": str(old)}
    events = [json.loads(line) for line in (new / "progress.jsonl").read_text().splitlines()]
    [payload] = [event["payload"] for event in events if event["event"] == "reuse_loaded"]
    assert payload == {
        "reused_tasks": 2,
        "kept_attempts": 0,
        "tasks_to_run": 1,
        "error_tasks": 1,
        "warning_tasks": 1,
    }
    progress = read(new, "progress.json")
    assert (progress["reused_tasks"], progress["finished_tasks"]) == (2, 3)
    assert (progress["error_tasks"], progress["warning_tasks"], progress["failed_tasks"]) == (1, 1, 0)
    assert f"| Reused | 2 tasks from {old.name} |" in (new / "summary.md").read_text()
    assert read(new, "metrics.json")["counts"]["evaluated"] == 3
    assert (new / "details" / "c.json").samefile(old / "details" / "c.json")
    assert f"reuse of run {old.name}: 2 of 3 tasks reused, 1 to run" in log(new)


def test_reuse_tells_of_results_that_were_made_with_other_settings(stage: Stage) -> None:
    stage.run("--model-params", '{"temperature": 0}').expect(0)
    old = stage.latest
    hot = ("--model-params", '{"temperature": 0.7, "max_attempts": 2}')
    told = "3 attempts made with other settings (model.params.temperature: 0.0 there, 0.7 here)"
    ended = stage.run("--reuse", *hot).expect(0)
    new = stage.latest
    assert stage.calls() == []
    assert f"Reused: 3 of 3 tasks from run {old.name}; {told}" in ended.stdout + ended.stderr
    assert read(new, "run_info.json")["reused_from"]["other_settings"] == {
        "attempts": 3,
        "differences": ["model.params.temperature: 0.0 there, 0.7 here"],
    }
    assert f"| Reused | 3 tasks from {old.name}; {told} |" in (new / "summary.md").read_text()
    assert "3 reused attempts were made with other settings: model.params.temperature" in log(new)


def test_everything_is_reused_and_nothing_runs_when_nothing_has_changed(stage: Stage) -> None:
    stage.run().expect(0)
    metrics = read(stage.latest, "metrics.json")
    stage.run("--reuse", "--task-concurrency", "1", "--max-retries", "3").expect(0)
    assert stage.calls() == []
    assert read(stage.latest, "metrics.json")["series"] == metrics["series"]
    assert "| Reused | 3 tasks from " in (stage.latest / "summary.md").read_text()
    launch = json.loads((stage.latest / "run_info.json").read_bytes())["launch_id"]
    [request] = stage.command_line.run("status", launch, "--json").expect(0).json["requests"]
    assert (request["reused_tasks"], request["finished_tasks"], request["total_tasks"]) == (3, 0, 3)
    assert "3/3 100.0%" in stage.command_line.run("status", launch).expect(0).stdout


def test_error_that_the_patterns_match_now_and_changed_tasks_run_again(stage: Stage) -> None:
    stage.tell("a.run", "error")
    stage.run().expect(0)
    stage.forget()
    changed = {**TASKS, "b": "B, but differently"}
    stage.run("--reuse", "--retry-pattern-list", '["^staged.trouble$"]', tasks=changed).expect(0)
    assert stage.calls() == ["evaluate a 1", "evaluate b 1", "run a 1", "run b 1"]
    assert "1 attempts have an ERROR that the retry patterns match" in log(stage.latest)
    assert "[b a1] is not reused: such attempts belong to a task whose content has changed" in log(
        stage.latest
    )


def test_larger_k_runs_the_new_attempts_only_and_a_smaller_one_is_refused(stage: Stage) -> None:
    stage.run("--k", "1").expect(0)
    again = stage.run("--k", "3", "--reuse").expect(0)
    assert (
        f"Reused: 0 of {len(TASKS)} tasks, and {len(TASKS)} attempts of tasks that get further ones"
        in again.stderr
    )
    wanted = [
        f"{hook} {task} {attempt}" for hook in ("evaluate", "run") for task in TASKS for attempt in (2, 3)
    ]
    assert stage.calls() == wanted
    assert sorted(read(stage.latest, "details/a.json")["attempts"]) == ["1", "2", "3"]
    ended = stage.run("--k", "2", "--reuse").expect(2)
    assert "k can be kept or raised, not lowered to 2" in ended.stderr
    assert len(stage.run_dirs) == 2


def test_success_stays_with_a_larger_k_of_pass(stage: Stage) -> None:
    stage.tell("a.run", "wrong")
    stage.run("--k", "2", "--attempt-strategy", "pass").expect(0)
    stage.forget()
    stage.run("--k", "4", "--attempt-strategy", "pass", "--reuse").expect(0)
    assert stage.calls() == ["evaluate a 3", "run a 3"]
    assert sorted(read(stage.latest, "details/a.json")["attempts"]) == ["1", "2", "3"]


def test_only_the_failed_attempt_of_a_task_runs_again(stage: Stage) -> None:
    stage.tell("b.a2.run", "fatal")
    stage.run("--k", "3").expect(1)
    stage.forget()
    stage.run("--k", "3", "--reuse").expect(0)
    assert stage.calls() == ["evaluate b 2", "run b 2"]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--reuse=nowhere"], "cannot reuse run 'nowhere': "),
        (["--reuse=first", "--run-id", "first"], "cannot be continued in its own directory"),
        (["--reuse=first", "--attempt-strategy", "pass"], "its attempts follow the strategy 'avg'"),
        (["--run-id", "first"], "holds a run that is over (completed)"),
    ],
)
def test_refusal_names_the_reason_and_leaves_nothing_behind(
    stage: Stage, options: list[str], reason: str
) -> None:
    stage.run("--run-id", "first").expect(0)
    before = contents(stage.command_line.results)
    ended = stage.run(*options).expect(2)
    assert len(ended.errors) == 1 and reason in ended.errors[0]
    assert "Traceback" not in ended.stderr
    assert stage.calls() == []
    assert contents(stage.command_line.results) == before
    assert len(list(stage.latest.parent.iterdir())) == 1


def test_second_driver_of_a_directory_is_refused_by_the_name_of_the_first(stage: Stage) -> None:
    stage.tell("a.run", "wait")
    first = stage.start("--run-id", "shared")
    wait_for("the first driver", lambda: "run a 1" in stage.calls())
    ended = stage.start("--run-id", "shared", tasks={"z": "Z"}).wait().expect(2)
    assert f"is held by launch '{first.launch_id}'" in ended.errors[0]
    stage.forget()
    first.wait().expect(0)
    assert Counter(stage.calls()) == Counter(
        f"{hook} {task} 1" for hook in ("run", "evaluate") for task in TASKS
    )


def test_running_run_may_be_a_source_and_two_may_use_it_at_once(stage: Stage) -> None:
    stage.tell("c.run", "wait")
    source = stage.start("--run-id", "source")
    details = stage.command_line.results / "none_staged_none" / "source" / "details"
    wait_for("two records", lambda: details.is_dir() and len(list(details.glob("[ab].json"))) == 2)
    stage.tell("c.run", "wait")
    both = [stage.start("--reuse=source", "--run-id", name) for name in ("one", "two")]
    wait_for("all three at task c", lambda: stage.calls().count("run c 1") == 3)
    stage.forget()
    for running in (*both, source):
        running.wait().expect(0)
    runs = {"evaluate a 1": 1, "evaluate b 1": 1, "evaluate c 1": 3, "run a 1": 1, "run b 1": 1, "run c 1": 3}
    assert Counter(stage.calls()) == runs
    for run_dir in stage.run_dirs:
        assert sorted(path.name for path in (run_dir / "details").iterdir()) == ["a.json", "b.json", "c.json"]


@pytest.mark.parametrize("mode", ["none", "fresh"])
def test_failed_evaluation_is_taken_up_without_running_the_agent_again(stage: Stage, mode: str) -> None:
    params = {"mode": mode, "artifact": mode == "fresh"}
    stage.tell("b.evaluate", "fatal")
    stage.run(**params).expect(1)
    stage.forget()
    old = stage.latest
    stage.run("--reuse", **params).expect(0)
    assert stage.calls() == ["evaluate b 1"]
    attempt = read(stage.latest, "details/b.json")["attempts"]["1"]
    assert attempt["metrics"] == {"correct": True} and attempt["issues"] == []
    assert attempt["artifacts"]["reuse_history"] == {"source_run": old.name, "retry_count": 0}
    shutil.rmtree(old)
    stage.run("--reuse", **params).expect(0)
    assert stage.calls() == []


def test_interrupted_evaluation_is_taken_up(stage: Stage) -> None:
    stage.tell("a.evaluate", "wait")
    running = stage.start(tasks={"a": "A"})
    wait_for("the evaluation", lambda: "evaluate a 1" in stage.calls())
    stage.command_line.run("cancel", running.launch_id).expect(0)
    running.wait()
    stage.forget()
    stage.run("--reuse", tasks={"a": "A"}).expect(0)
    assert stage.calls() == ["evaluate a 1"]


def test_evaluation_is_not_taken_up_with_no_checkpoint_resume(stage: Stage) -> None:
    stage.tell("b.evaluate", "fatal")
    stage.run().expect(1)
    stage.forget()
    stage.run("--reuse", "--no-checkpoint-resume").expect(0)
    assert stage.calls() == ["evaluate b 1", "run b 1"]


def test_evaluation_in_the_environment_of_the_agent_is_never_taken_up(stage: Stage) -> None:
    stage.tell("b.evaluate", "fatal")
    stage.run(mode="reuse").expect(1)
    stage.forget()
    stage.run("--reuse", mode="reuse").expect(0)
    assert stage.calls() == ["evaluate b 1", "run b 1"]


def test_broken_checkpoint_is_named_in_the_log_and_the_attempt_runs(stage: Stage) -> None:
    stage.tell("b.evaluate", "fatal")
    stage.run().expect(1)
    stage.forget()
    [checkpoint] = (stage.latest / ".state" / "evaluation").iterdir()
    checkpoint.write_bytes(checkpoint.read_bytes()[:-20])
    stage.run("--reuse").expect(0)
    assert stage.calls() == ["evaluate b 1", "run b 1"]
    assert "[b a1] the evaluation is not taken up: " in log(stage.latest)
    assert "b.a1.json: not a valid EvaluationCheckpoint" in log(stage.latest)
