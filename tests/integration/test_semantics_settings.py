"""What the settings of a run change, told by run directories and exit codes."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from command_line import CommandLine, kill_and_wait, running_with, wait_for
from row_runs import Rows, finish, make_command_line, run_rows, start_rows

PRINT = "sh:echo $COMMON,$RUN,$EVAL,$START"
SCOPES = {
    "env_variables": {"COMMON": "common"},
    "run_env_variables": {"RUN": "run"},
    "evaluation_env_variables": {"EVAL": "eval"},
}
CRASHED = ("error", "evaluate", "evaluation_failed")


def in_vain(name: str) -> dict[str, Any]:
    return {"id": name, "only_attempt": 1, "do": {"collect_result": "error:acme.nothing"}}


K3 = [in_vain("late"), {"id": "never", "do": {"collect_result": "error:acme.nothing"}}, {"id": "soon"}]
WITH_SCOPES = ("--env-params", json.dumps(SCOPES))
OWN_START = {
    **SCOPES,
    "evaluation_environment_mode": "fresh",
    "evaluation_environment_env_variables": {"START": "start"},
}
DELAYS = {"max_retries": 1, "retry_min_delay_seconds": 3, "retry_max_delay_seconds": 3}
MEET = "mkdir -p {0}; mktemp {0}/XXXXXX >/dev/null; n=0; until [ $(ls {0} | wc -l) = 2 ] || [ $n = 200 ]; do n=$((n+1)); sleep 0.1; done; ls {0} | wc -l"
"""Waits for the other attempt, and prints how many have come."""
ALONE = "if mkdir {0}; then sleep 0.3; rmdir {0}; echo alone; else echo not alone; fi"
SCALES = {"timeout_multiplier": 0.01, "run_timeout_multiplier": 0.02}
RUNS: dict[str, Callable[[CommandLine], Rows]] = {
    "fresh": lambda line: run_rows(
        line,
        [{"id": "fresh", "do": {"execute_task": PRINT, "evaluate": PRINT}}],
        *("--env-params", json.dumps(OWN_START)),
    ),
    "free": lambda line: run_rows(
        line,
        [
            {"id": "fine", "do": {"run_task": "sh:echo $RUN"}},
            {"id": "timeout", "run_timeout_seconds": 0.3, "do": {"run_task": "forever"}},
            {"id": "error", "do": {"run_task": "error:model_timeout"}},
            {"id": "raise", "do": {"run_task": "raise"}},
        ],
        *WITH_SCOPES,
        benchmark="rows_free",
        harness="none",
    ),
    "kept": lambda line: run_rows(
        line,
        [{"id": "kept", "mode": "reuse", "do": {"execute_task": "sh:pwd; echo mine > file"}}],
        "--keep-environment",
    ),
    "waiting": lambda line: run_rows(
        line,
        [
            {
                "id": "t",
                "only_execution": 1,
                "run_timeout_seconds": 1.0,
                "do": {"collect_result": "fatal:acme.down"},
            }
        ],
        execution=DELAYS,
    ),
    "traceback": lambda line: run_rows(
        line,
        [{"id": "t", "do": {"evaluate": "raise"}}],
        execution={"max_retries": 2, "retry_pattern_list": ["Traceback", "script.py"]},
    ),
    "together": lambda line: run_rows(
        line,
        [{"id": "t", "do": {"execute_task": f"sh:{MEET.format(line.folder / 'met')}"}}],
        *("--k", "2", "--attempt-strategy", "avg"),
    ),
    "alone": lambda line: run_rows(
        line,
        [{"id": "t", "do": {"execute_task": f"sh:{ALONE.format(line.folder / 'met')}", "evaluate": "raise"}}],
        *("--k", "3", "--attempt-strategy", "pass"),
    ),
    "scaled": lambda line: run_rows(
        line,
        [
            {"id": "agent", "run_timeout_seconds": 20, "do": {"execute_task": "forever"}},
            {"id": "judge", "evaluation_timeout_seconds": 30, "do": {"evaluate": "forever"}},
        ],
        execution=SCALES,
    ),
    "deadline": lambda line: run_rows(
        line,
        [
            {"id": "quick"},
            {
                "id": "endless",
                "do": {"execute_task": f"sh:touch {line.folder}/endless; exec tail -f {line.folder}/endless"},
            },
        ],
        *("--timeout-seconds", "6"),
        benchmark="rows_slow",
        harness="rows_slow",
    ),
    "k3 avg": lambda line: run_rows(line, K3, "--k", "3", "--attempt-strategy", "avg"),
    "k3 pass": lambda line: run_rows(line, K3, "--k", "3", "--attempt-strategy", "pass"),
}


@pytest.fixture(scope="module")
def runs(embedded_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Rows]]:
    """All at the same time, because a command line mostly waits."""
    lines = {name: make_command_line(embedded_home, tmp_path_factory.mktemp("settings")) for name in RUNS}
    try:
        with ThreadPoolExecutor(4) as pool:
            yield dict(zip(RUNS, pool.map(lambda name: RUNS[name](lines[name]), RUNS), strict=True))
    finally:
        for line in lines.values():
            line.end_all()


@pytest.fixture
def rows_command_line(embedded_home: Path, tmp_path: Path) -> Iterator[CommandLine]:
    command_line = make_command_line(embedded_home, tmp_path)
    yield command_line
    command_line.end_all()


def test_a_fresh_verifier_has_start_variables_of_its_own(runs: dict[str, Rows]) -> None:
    runs["fresh"].ended.expect(0)
    extra = runs["fresh"].attempt("fresh")["extra"]
    assert (extra["run"], extra["evaluate"]) == ("common,run,,\n", ",,eval,start\n")


def test_without_a_harness_the_same_rules_hold(runs: dict[str, Rows]) -> None:
    run = runs["free"]
    run.ended.expect(1)
    assert (run.issues("fine"), run.correct("fine")) == ([], True)
    assert run.attempt("fine")["extra"]["run"] == "run\n"
    assert (run.issues("timeout"), run.correct("timeout")) == ([("error", "run", "harness_timeout")], False)
    assert (run.issues("error"), run.correct("error")) == ([("error", "run", "model_timeout")], False)
    assert (run.issues("raise"), run.state("raise")) == ([("fatal", "run", "harness_failed")], "invalidated")


def test_a_kept_environment_stays(runs: dict[str, Rows], embedded_home: Path) -> None:
    runs["kept"].ended.expect(0)
    workdir = Path(runs["kept"].attempt("kept")["extra"]["run"].strip())
    assert workdir.is_relative_to(embedded_home)
    assert (workdir / "file").read_text() == "mine\n"
    shutil.rmtree(workdir.parent)


def test_the_wait_for_a_retry_is_not_charged(runs: dict[str, Rows]) -> None:
    runs["waiting"].ended.expect(0)
    assert (runs["waiting"].issues("t"), runs["waiting"].retry_count("t")) == ([], 1)


def test_a_pattern_is_not_matched_against_a_traceback(runs: dict[str, Rows]) -> None:
    run = runs["traceback"]
    assert (run.issues("t"), run.retry_count("t")) == ([CRASHED], 0)
    assert "script.py" in run.attempt("t")["artifacts"]["execution_diagnostics"]


def test_attempts_of_a_task_overlap_for_avg_and_never_for_pass(runs: dict[str, Rows]) -> None:
    for name, expected in (("together", ["2", "2"]), ("alone", ["alone"] * 3)):
        attempts = runs[name].record("t")["attempts"].values()
        assert [attempt["extra"]["run"].strip() for attempt in attempts] == expected


def test_a_budget_is_the_tasks_own_times_the_multiplier_of_its_stage_or_the_common_one(
    runs: dict[str, Rows],
) -> None:
    run = runs["scaled"]
    assert run.message("agent") == "the run budget of 0.4 s (run_timeout_seconds) is used up"
    assert run.message("judge") == "the evaluation budget of 0.3 s (evaluation_timeout_seconds) is used up"
    assert (run.correct("agent"), run.correct("judge")) == (True, None)


def test_at_the_deadline_all_is_over_and_what_was_finished_counts(runs: dict[str, Rows]) -> None:
    run = runs["deadline"]
    run.ended.expect(1)
    assert "Status: timed_out" in run.ended.stdout
    assert json.loads((run.run_dir / "run_info.json").read_bytes())["status"] == "timed_out"
    mark = run.run_dir.parents[2] / "endless"
    assert mark.exists() and running_with(str(mark)) == []
    assert (run.correct("quick"), run.state("endless")) == (True, "unavailable")


def test_avg_takes_the_mean_of_all_attempts(runs: dict[str, Rows]) -> None:
    run = runs["k3 avg"]
    assert [run.correct("late", number) for number in (1, 2, 3)] == [False, True, True]
    [series] = [item for item in run.metrics["series"] if item["id"] == "correct.avg@3"]
    assert series["value"] == pytest.approx((2 / 3 + 0 + 1) / 3)
    assert series["attempt_coverage"]["expected"] == 9


def test_pass_stops_early_and_misses_nothing(runs: dict[str, Rows]) -> None:
    run = runs["k3 pass"]
    assert {task: len(run.record(task)["attempts"]) for task in ("late", "never", "soon")} == {
        "late": 2,
        "never": 3,
        "soon": 1,
    }
    [series] = [item for item in run.metrics["series"] if item["id"] == "correct.pass@3"]
    assert series["value"] == pytest.approx(2 / 3)
    assert series["counts"]["evaluated"] == 3


def test_a_killed_worker_neither_renews_the_budget_nor_is_its_absence_charged(
    rows_command_line: CommandLine,
) -> None:
    config = rows_command_line.folder / "quick.yaml"
    config.write_text("runtime: {heartbeat_timeout_seconds: 4}\n")
    task = {"id": "t", "mode": "reuse", "run_timeout_seconds": 6.0, "do": {"execute_task": "forever"}}
    running = start_rows(
        rows_command_line, [task], "--progress", "plain", "--config", str(config), harness="rows_slow"
    )

    def agent_runs() -> bool:
        found = list(rows_command_line.results.glob("**/progress.jsonl"))
        return bool(found) and '"phase":"run_harness"' in found[0].read_text()

    worker = running.worker_pid
    wait_for("the agent", agent_runs)
    time.sleep(2.5)  # what is charged is time, so that there is nothing else to wait for
    kill_and_wait(worker)
    run = finish(rows_command_line, running)
    assert run.issues("t") == [("error", "run", "harness_timeout")]
    assert 1.0 < run.attempt("t")["meta"]["timings"]["run"] < 5.2


def test_a_cancelled_task_has_what_its_last_execution_left(rows_command_line: CommandLine) -> None:
    """The first one failed and is history; the second one is under way."""
    begun = rows_command_line.folder / "begun"
    script = f"sh:mkdir {begun} && exit; touch {begun}/again; sleep 1000"
    tasks = [{"id": "t", "do": {"execute_task": script, "collect_result": "fatal:acme.down"}}, {"id": "well"}]
    running = start_rows(
        rows_command_line,
        tasks,
        *("--progress", "plain"),
        benchmark="rows_slow",
        harness="rows_slow",
        execution={"max_retries": 1},
    )
    wait_for("the second execution", (begun / "again").exists)
    rows_command_line.run("cancel", running.launch_id, "--task", "t").expect(0)
    run = finish(rows_command_line, running)
    assert run.issues("t") == [("error", "run", "cancelled")]
    assert (run.attempt("t")["status"], run.state("t"), run.correct("well")) == (
        "cancelled",
        "unavailable",
        True,
    )


def test_gates_decide_the_exit_code(rows_command_line: CommandLine) -> None:
    tasks = [
        {"id": "right"},
        {"id": "wrong", "do": {"collect_result": "error:acme.nothing"}},
        {"id": "absent", "do": {"evaluate": "raise"}},
    ]
    gates = {
        ("--fail-under", "correct=0.5"): 0,
        ("--fail-under", "correct=0.51"): 1,
        ("--max-unevaluated", "1"): 0,
        ("--max-unevaluated", "0"): 1,
    }
    running = [
        start_rows(rows_command_line, tasks, *gate, "--run-name", str(number))
        for number, gate in enumerate(gates)
    ]
    assert [item.wait().code for item in running] == list(gates.values())


def test_what_the_environment_cannot_do_is_refused_before_anything_is_written(
    rows_command_line: CommandLine,
) -> None:
    allowed = {"network_mode": "allowlist", "allowed_hosts": ["a.org"]}
    refused: list[tuple[dict[str, Any], str]] = [
        ({"network_policy": "no-network"}, "'host_process' cannot enforce network policy 'no-network'; it offers public"),
        ({"run_network_policy": allowed}, "cannot enforce network policy 'allowlist'"),
        ({"evaluation_environment_env_variables": {"A": "1"}}, "needs evaluation_environment_mode 'fresh', not 'none'"),
    ]  # fmt: skip
    running = [
        start_rows(rows_command_line, [{"id": "t"}], "--env-params", json.dumps(parameters))
        for parameters, _ in refused
    ]
    for item, (_, message) in zip(running, refused, strict=True):
        assert item.wait().expect(2).stderr.count(message) == 1
    assert rows_command_line.run_dirs == []
