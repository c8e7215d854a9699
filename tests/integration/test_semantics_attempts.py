"""What happens in an attempt, told by the run directory: one run of many scripted tasks."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from command_line import CommandLine, kill_and_wait, wait_for
from row_runs import Rows, finish, make_command_line, run_rows, start_rows

PRINT = "sh:echo $COMMON,$RUN,$EVAL,$START"
SCOPES = {
    "env_variables": {"COMMON": "common"},
    "run_env_variables": {"RUN": "run"},
    "evaluation_env_variables": {"EVAL": "eval"},
}
REWRITER = "setsid sh -c 'while :; do echo wrong > verdict; sleep 0.02; done' > /dev/null 2>&1 &"
TASKS: list[dict[str, Any]] = [
    {"id": "fine"},
    {
        "id": "agent-timeout",
        "mode": "reuse",
        "run_timeout_seconds": 0.5,
        "do": {"execute_task": "forever", "evaluate": "sh:echo judged"},
    },
    {"id": "own-timeout", "do": {"execute_task": "timeout"}},
    {"id": "verifier-timeout", "evaluation_timeout_seconds": 0.5, "do": {"evaluate": "forever"}},
    {"id": "verifier-crash", "do": {"evaluate": "raise"}},
    {"id": "verifier-none", "do": {"evaluate": "none"}},
    {"id": "verifier-exit", "do": {"evaluate": "exit"}},
    {"id": "verifier-cancel", "do": {"evaluate": "cancel"}},
    {"id": "verifier-lost", "mode": "reuse", "do": {"evaluate": "lost"}},
    {"id": "plan", "do": {"build_plan": "raise"}},
    {"id": "prepare", "do": {"prepare_task": "raise"}},
    {"id": "prepare-none", "do": {"prepare_task": "none"}},
    {"id": "agent-exit", "do": {"execute_task": "exit"}},
    {"id": "both", "do": {"execute_task": "error:acme.slow", "collect_result": "raise"}},
    {"id": "unwritable", "do": {"collect_result": "unwritable"}},
    {"id": "garbage", "do": {"collect_result": "garbage"}},
    {"id": "bytes", "do": {"execute_task": "sh:printf '\\377\\000 caf\\303\\251'"}},
    {"id": "undeclared", "do": {"evaluate": "undeclared"}},
    {"id": "ill-typed", "do": {"evaluate": "ill-typed"}},
    {"id": "unnumbered", "do": {"evaluate": "unnumbered"}},
    {"id": "reported", "do": {"execute_task": "report-error:acme.odd", "evaluate": "report-warning:acme.note"}},
    {"id": "reported-fatal", "do": {"evaluate": "report-fatal:judge_failed"}},
    {
        "id": "left-over",
        "mode": "reuse",
        "do": {
            "execute_task": f"sh:{REWRITER} while [ ! -s verdict ]; do sleep 0.01; done",
            "evaluate": "sh:echo right > verdict; sleep 0.5; cat verdict",
        },
    },
    {
        "id": "deadline",
        "mode": "reuse",
        "run_timeout_seconds": 500,
        "do": {"execute_task": "sh:echo $AGENTCOMPASS_DEADLINE", "evaluate": "sh:echo [$AGENTCOMPASS_DEADLINE]"},
    },
    {"id": "no-deadline", "do": {"execute_task": "sh:echo [$AGENTCOMPASS_DEADLINE]"}},
    {
        "id": "scopes",
        "mode": "reuse",
        "do": {"prepare_task": PRINT, "start_session": PRINT, "execute_task": PRINT, "evaluate": PRINT},
    },
    {"id": "recipe-raises"},
    {"id": "recipe-breaks"},
    {"id": "recipe-sets", "do": {"execute_task": "sh:echo $RUN,$RECIPE"}},
    {"id": "timed", "mode": "reuse", "do": {"execute_task": "sh:sleep 0.3", "evaluate": "sh:sleep 0.2"}},
]  # fmt: skip
CRASHED = ("error", "evaluate", "evaluation_failed")


RECIPES = """
from agentcompass.contracts import NoParams, Recipe


class ForSome(Recipe[NoParams]):
    id = "for_some"
    description = "Sets, breaks or raises"

    def matches(self, request, task, plan):
        return task.task_id.startswith("recipe-")

    def apply(self, plan, request, task):
        if task.task_id == "recipe-raises":
            raise KeyError("no such row")
        environment = plan.environment
        if task.task_id == "recipe-breaks":
            return plan.model_copy(
                update={"environment": environment.model_copy(update={"params": {"colour": "red"}})}
            )
        variables = {"RUN": "recipe", "RECIPE": "recipe"}
        return plan.model_copy(
            update={
                "environment": environment.model_copy(update={"run_env_variables": variables}),
                "keep_environment": True,
            }
        )
"""


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
RUNS: dict[str, Callable[[CommandLine], Rows]] = {
    "main": lambda line: run_rows(
        line,
        TASKS,
        *(*WITH_SCOPES, "--max-unevaluated", "0", "--task-concurrency", "6"),
        *("--recipe-dir", str(line.folder / "recipes")),
        execution={"keep_environment": False},
    ),
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
    "k3 avg": lambda line: run_rows(line, K3, "--k", "3", "--attempt-strategy", "avg"),
    "k3 pass": lambda line: run_rows(line, K3, "--k", "3", "--attempt-strategy", "pass"),
}


@pytest.fixture(scope="module")
def runs(embedded_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Rows]]:
    """All at the same time, because a command line mostly waits."""
    lines = {name: make_command_line(embedded_home, tmp_path_factory.mktemp("attempts")) for name in RUNS}
    (lines["main"].folder / "recipes").mkdir()
    (lines["main"].folder / "recipes" / "for_some.py").write_text(RECIPES)
    try:
        with ThreadPoolExecutor(4) as pool:
            yield dict(zip(RUNS, pool.map(lambda name: RUNS[name](lines[name]), RUNS), strict=True))
    finally:
        for line in lines.values():
            line.end_all()


@pytest.fixture(scope="module")
def run(runs: dict[str, Rows]) -> Rows:
    """The run of all the tasks above."""
    return runs["main"]


@pytest.fixture
def rows_command_line(embedded_home: Path, tmp_path: Path) -> Iterator[CommandLine]:
    command_line = make_command_line(embedded_home, tmp_path)
    yield command_line
    command_line.end_all()


def test_an_agents_timeout_stands_beside_the_score_of_what_it_left(run: Rows) -> None:
    assert run.issues("agent-timeout") == [("error", "run", "harness_timeout")]
    assert run.message("agent-timeout") == "the run budget of 0.5 s (run_timeout_seconds) is used up"
    assert run.attempt("agent-timeout")["extra"]["evaluate"] == "judged\n"
    assert (run.state("agent-timeout"), run.correct("agent-timeout")) == ("evaluated", True)
    assert run.issues("own-timeout") == [("error", "run", "harness_timeout")]
    assert run.correct("own-timeout") is True


def test_a_verifiers_timeout_leaves_the_observation_absent(run: Rows) -> None:
    assert run.issues("verifier-timeout") == [("error", "evaluate", "evaluation_timeout")]
    assert run.message("verifier-timeout") == (
        "the evaluation budget of 0.5 s (evaluation_timeout_seconds) is used up"
    )
    assert (run.state("verifier-timeout"), run.correct("verifier-timeout")) == ("unavailable", None)


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ("verifier-crash", "ValueError: evaluate broke"),
        ("verifier-none", "TypeError: evaluate returned NoneType instead of RunResult"),
        ("verifier-exit", "SystemExit: 3"),
        ("verifier-cancel", "CancelledError"),
    ],
)
def test_a_verifier_that_breaks_costs_its_task_only(run: Rows, task: str, message: str) -> None:
    assert run.issues(task) == [CRASHED]
    assert run.message(task) == message
    assert (run.state(task), run.correct(task)) == ("unavailable", None)
    assert "Traceback" in run.attempt(task)["artifacts"]["execution_diagnostics"]


def test_a_lost_environment_is_never_a_wrong_answer(run: Rows) -> None:
    assert run.issues("verifier-lost") == [("fatal", "evaluate", "environment_lost")]
    assert run.state("verifier-lost") == "invalidated"


@pytest.mark.parametrize(
    ("task", "issue", "message"),
    [
        ("plan", ("fatal", "setup", "setup_failed"), "benchmark 'rows' could not plan: LookupError: no plan for this one"),
        ("prepare", ("fatal", "setup", "setup_failed"), "ValueError: prepare_task broke"),
        ("prepare-none", ("fatal", "setup", "setup_failed"), "TypeError: prepare_task returned NoneType instead of PreparedTask"),
        ("agent-exit", ("fatal", "run", "harness_failed"), "SystemExit: 3"),
        ("unwritable", ("fatal", "collect", "result_collection_failed"), "TypeError: Object of type object is not JSON serializable"),
    ],
)  # fmt: skip
def test_what_cannot_be_executed_is_invalid(
    run: Rows, task: str, issue: tuple[str, str, str], message: str
) -> None:
    assert run.issues(task) == [issue]
    assert run.message(task) == message
    assert run.state(task) == "invalidated"
    assert message.partition(": ")[2] in run.attempt(task)["artifacts"]["execution_diagnostics"]


def test_a_task_that_cannot_be_planned_is_told_from_its_start(run: Rows) -> None:
    kinds = [event["event"] for event in run.events if event["task_id"] == "plan"]
    assert kinds[:2] == ["task_started", "attempt_started"]
    assert kinds[-1] == "task_finished"
    assert "execution_plan_resolved" not in kinds


def test_a_failed_collection_keeps_the_failure_before_it(run: Rows) -> None:
    assert run.issues("both") == [
        ("error", "run", "acme.slow"),
        ("fatal", "collect", "result_collection_failed"),
    ]


@pytest.mark.parametrize(
    ("task", "correct", "message"),
    [
        ("undeclared", True, "metric 'surprise' is not declared; declared are correct"),
        ("ill-typed", None, "metric 'correct' must be true or false, not a value of type str"),
        ("unnumbered", None, "metric 'correct' must be true or false, not nan (float)"),
    ],
)
def test_a_metric_outside_the_contract_is_left_out(
    run: Rows, task: str, correct: bool | None, message: str
) -> None:
    assert run.issues(task) == [("error", "evaluate", "metric_invalid")]
    assert run.message(task) == message
    assert run.correct(task) is correct
    assert run.state(task) == ("evaluated" if correct else "unavailable")


def test_what_hooks_report_is_in_the_result_in_their_order(run: Rows) -> None:
    assert run.issues("reported") == [("error", "run", "acme.odd"), ("warning", "evaluate", "acme.note")]
    assert run.message("reported") == "execute_task said acme.odd"
    assert run.correct("reported") is True


def test_a_fatal_report_invalidates_the_score_beside_it(run: Rows) -> None:
    assert (run.state("reported-fatal"), run.correct("reported-fatal")) == ("invalidated", True)


def test_bytes_that_are_no_text_are_replaced_and_cost_nothing_else(run: Rows) -> None:
    assert run.attempt("bytes")["extra"]["run"] == "\ufffd\0 café"
    assert run.correct("bytes") is True
    assert run.attempt("garbage")["extra"]["run"].endswith(" end \ufffd\ufffd\ufffd")
    assert run.correct("garbage") is True


def test_a_left_over_process_cannot_rewrite_the_verdict(run: Rows) -> None:
    assert run.attempt("left-over")["extra"]["evaluate"] == "right\n"


def test_the_agent_is_told_its_deadline_and_its_judge_is_not(run: Rows) -> None:
    extra = run.attempt("deadline")["extra"]
    started = next(
        event["timestamp"]
        for event in run.events
        if event["task_id"] == "deadline" and event["phase"] == "run_harness"
    )
    assert started - 5 < float(extra["run"]) - 500 < started + 30
    assert extra["evaluate"] == "[]\n"
    assert run.attempt("no-deadline")["extra"]["run"] == "[]\n"


def test_variables_are_seen_in_their_phases_and_in_no_other(run: Rows) -> None:
    extra = run.attempt("scopes")["extra"]
    assert extra["prepare"] == "common,,,\n"
    assert extra["run"] == "common,run,,\n" * 2
    assert extra["evaluate"] == "common,,eval,\n"


def test_timings_are_those_of_the_phases(run: Rows) -> None:
    timings = run.attempt("timed")["meta"]["timings"]
    assert set(timings) == {"start_harness", "run", "collect_result", "evaluate"}
    assert 0.3 <= timings["run"] < 10
    assert 0.2 <= timings["evaluate"] < 10


def test_the_headline_and_the_exit_code_tell_of_all_that_was_not_evaluated(run: Rows) -> None:
    run.ended.expect(1)
    assert "10 of 30 tasks invalidated" in run.ended.stdout
    assert "7 NOT evaluated" in run.ended.stdout
    [series] = run.metrics["series"]
    assert (series["value"], series["reference_value"]) == (None, 1.0)
    assert series["counts"] == {
        "total": 30,
        "evaluated": 13,
        "unavailable": 7,
        "invalidated": 10,
        "error": 21,
    }


def test_a_recipe_that_raises_costs_its_task_only(run: Rows) -> None:
    assert run.issues("recipe-raises") == [("fatal", "setup", "setup_failed")]
    assert run.message("recipe-raises") == "recipe 'for_some' could not plan: KeyError: 'no such row'"


def test_a_recipe_that_gives_the_environment_a_wrong_parameter_is_named(run: Rows) -> None:
    assert run.issues("recipe-breaks") == [("fatal", "setup", "setup_failed")]
    assert run.message("recipe-breaks").startswith("recipes for_some could not plan: ")
    assert "colour" in run.message("recipe-breaks")


def test_a_recipe_fills_gaps_and_overrules_nothing_that_was_written(run: Rows) -> None:
    assert run.attempt("recipe-sets")["extra"]["run"] == "run,recipe\n"
    plan = run.attempt("recipe-sets")["plan"]
    assert plan["applied_recipes"] == ["for_some"]
    assert plan["keep_environment"] is False  # as --execution-params say, although it is the default


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
