"""What happens in an attempt, told by the run directory: one run of many scripted tasks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from row_runs import Rows, make_command_line, run_rows

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
    {
        "id": "deliverables",
        "files": ["there.txt", "-gone 'x'", "gone.txt", "/nowhere/gone"],
        "do": {"execute_task": "sh:echo x > there.txt"},
    },
    {"id": "no-deliverables", "files": ["gone.txt"], "do": {"execute_task": "fatal:model_server_error"}},
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


@pytest.fixture(scope="module")
def run(embedded_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rows]:
    """The run of all the tasks above."""
    command_line = make_command_line(embedded_home, tmp_path_factory.mktemp("attempts"))
    recipes = command_line.folder / "recipes"
    recipes.mkdir()
    (recipes / "for_some.py").write_text(RECIPES)
    try:
        yield run_rows(
            command_line,
            TASKS,
            *("--env-params", json.dumps(SCOPES), "--max-unevaluated", "0", "--task-concurrency", "6"),
            *("--recipe-dir", str(recipes)),
            execution={"keep_environment": False},
        )
    finally:
        command_line.end_all()


def test_an_agents_timeout_stands_beside_the_score_of_what_it_left(run: Rows) -> None:
    assert run.issues("agent-timeout") == [("error", "run", "harness_timeout")]
    assert run.message("agent-timeout") == "the run budget of 0.5 s (run_timeout_seconds) is used up"
    assert run.attempt("agent-timeout")["extra"]["evaluate"] == "judged\n"
    assert (run.state("agent-timeout"), run.correct("agent-timeout")) == ("evaluated", True)
    assert run.issues("own-timeout") == [("error", "run", "harness_timeout")]
    assert run.correct("own-timeout") is True


def test_a_file_that_the_agent_did_not_leave_is_a_warning_beside_the_score(run: Rows) -> None:
    assert run.issues("deliverables") == [("warning", "collect", "artifact_missing")]
    assert run.message("deliverables") == (
        """the agent did not leave "-gone 'x'", 'gone.txt', '/nowhere/gone'"""
    )
    assert (run.state("deliverables"), run.correct("deliverables")) == ("evaluated", True)
    assert run.issues("no-deliverables") == [("fatal", "run", "model_server_error")]


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
    assert "11 of 32 tasks invalidated" in run.ended.stdout
    assert "7 NOT evaluated" in run.ended.stdout
    [series] = run.metrics["series"]
    assert (series["value"], series["reference_value"]) == (None, 1.0)
    assert series["counts"] == {
        "total": 32,
        "evaluated": 14,
        "unavailable": 7,
        "invalidated": 11,
        "error": 22,
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
