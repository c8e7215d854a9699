"""The summary for people: what it says first, and that nothing in it can break it."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcompass.activities.finalize import failure_text
from agentcompass.activities.metrics import RunFacts, build_report, headline, render_summary
from agentcompass.activities.metrics.text import markdown, one_line
from agentcompass.contracts.issues import Issue, IssuePhase, Severity
from agentcompass.contracts.metrics import (
    BENCHMARK_DEFAULT_CONTRACT,
    AttemptObservation,
    MetricReport,
    Tally,
    TaskObservations,
    UsageTotals,
)
from agentcompass.contracts.request import AttemptsSpec

FACTS = RunFacts(
    run_id="r1",
    model="model-x",
    harness="openai_chat",
    environment="docker",
    status="completed",
    started_at="2026-01-01T00:00:00Z",
    finished_at="2026-01-01T01:00:00Z",
    reused_tasks=2,
    reused_from="r0",
)


def issue(severity: Severity, code: str, message: str = "it broke") -> Issue:
    return Issue(severity=severity, phase=IssuePhase.EVALUATE, code=code, message=message)


def task(
    task_id: str, correct: bool | None, problem: Issue | None = None, category: str = ""
) -> TaskObservations:
    return TaskObservations(
        task_id=task_id,
        category=category,
        attempts=[
            AttemptObservation(
                attempt=1,
                metrics={} if correct is None else {"correct": correct},
                fatal=problem is not None and problem.severity is Severity.FATAL,
                error=problem is not None and problem.severity is Severity.ERROR,
                issue=problem,
            )
        ],
    )


def report(tasks: list[TaskObservations]) -> MetricReport:
    return build_report("humaneval", BENCHMARK_DEFAULT_CONTRACT, AttemptsSpec(), tasks)


TIMEOUT = issue(Severity.ERROR, "evaluation_timeout")
SCORED = [task("a", True), task("b", False)]


def test_the_headline_of_a_complete_run_is_value_interval_and_coverage() -> None:
    assert (
        headline(report(SCORED))
        == "correct.native@1 = 0.5000 (95% CI 0.0945 to 0.9055) | 2/2 tasks evaluated"
    )


def test_the_headline_says_how_many_were_not_evaluated_and_why() -> None:
    tasks = [*SCORED, task("c", None, TIMEOUT), task("d", None, TIMEOUT), task("e", None)]
    assert headline(report(tasks)) == (
        "correct.native@1 = 0.5000 (95% CI 0.0945 to 0.9055) | 2/5 tasks evaluated"
        " | 3 NOT evaluated: evaluation_timeout 2, not_observed 1 | 2 with errors"
    )


def test_the_headline_of_a_failed_evaluation_marks_its_number_as_a_reference() -> None:
    tasks = [*SCORED, task("c", True, issue(Severity.FATAL, "judge_failed"))]
    assert headline(report(tasks)) == (
        "EVALUATION FAILED: 1 of 3 tasks invalidated by fatal issues (judge_failed 1), no official score"
        " | reference only, without the invalidated tasks: correct.native@1 = 0.5000 (95% CI 0.0945 to 0.9055)"
        " | 2/3 tasks evaluated | 1 with errors"
    )


def test_the_headline_of_a_run_without_a_score_says_so() -> None:
    assert headline(report([task("a", None)])) == (
        "correct.native@1 unavailable | 0/1 tasks evaluated | 1 NOT evaluated: not_observed 1"
    )


def test_the_summary_has_headline_facts_metrics_categories_problems_and_usage() -> None:
    tasks = [
        task("a", True, category="x"),
        task("b", False, issue(Severity.ERROR, "harness_timeout"), category="y"),
        task("c", None, TIMEOUT, category="y"),
    ]
    usage = UsageTotals(
        attempts=3,
        steps=7,
        calls=4,
        prompt_tokens=Tally(total=1200, calls=4),
        cost_usd=Tally(total=0.25, calls=2),
    )
    full = report(tasks).model_copy(update={"usage": usage})
    lines = render_summary(full, FACTS, tasks).splitlines()
    assert lines[0] == "# HUMANEVAL Evaluation Results"
    assert lines[2].startswith(
        "**correct.native@1 = 0.5000 (95% CI 0.0945 to 0.9055)** · 2/3 tasks evaluated · 1 NOT"
    )
    for line in (
        "| Run | r1 |",
        "| Model | model-x |",
        "| Benchmark | humaneval |",
        "| Harness | openai_chat |",
        "| Environment | docker |",
        "| Attempts | k=1, strategy avg, aggregation micro |",
        "| Started | 2026-01-01T00:00:00Z |",
        "| Finished | 2026-01-01T01:00:00Z |",
        "| Reused | 2 tasks from r0 |",
        "| correct.native@1 | 0.5000 | 0.0945 to 0.9055 | 2/3 | 1 | 0 | 2 | 2/3 |",
        "| x | 1.0000 | 0.2065 to 1.0000 | 1/1 | 0 | 0 | 0 | 1/1 |",
        "| y | 0.0000 | 0.0000 to 0.7935 | 1/2 | 1 | 0 | 2 | 1/2 |",
        "| c | y | unavailable | all | attempt 1: evaluation_timeout: it broke |",
        "| b | y | evaluated | - | harness_timeout: it broke |",
        "4 model calls in 7 steps of 3 attempts; executions discarded by a retry are not included.",
        "| Prompt tokens | 1200 | 4/4 |",
        "| Cost (USD) | 0.2500 | 2/4 |",
    ):
        assert line in lines


def test_a_failed_evaluation_shows_only_marked_references() -> None:
    tasks = [*SCORED, task("c", True, issue(Severity.FATAL, "judge_failed"))]
    text = render_summary(report(tasks), FACTS, tasks)
    assert "**EVALUATION FAILED: 1 of 3 tasks" in text
    assert "| correct.native@1 | 0.5000 (reference) |" in text
    assert "| c |  | INVALIDATED | all | attempt 1: judge_failed: it broke |" in text
    assert "there is no official score" in text


def test_the_list_of_problems_is_bounded_and_counts_the_rest() -> None:
    tasks = [task(f"t{number:03}", None, TIMEOUT) for number in range(120)]
    text = render_summary(report(tasks), FACTS, tasks)
    assert text.count("| attempt 1: evaluation_timeout") == 50
    assert "… and 70 more in metrics.json and details/" in text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("snake_case stays", "snake_case stays"),
        ("_em_ *b* `c`", r"\_em\_ \*b\* \`c\`"),
        ("a|b\r\nc", "a&#124;b c"),
        ("<img src=x onerror=y> & co", "&lt;img src=x onerror=y&gt; &amp; co"),
        ("[a](http://b) www.c.de", r"\[a\](http&#58;//b) www&#46;c.de"),
        ("@all me@example.com x.pass@3", "&#64;all me&#64;example.com x.pass@3"),
        ("\\| # ~~x~~", r"\\&#124; \# \~\~x\~\~"),
        ("\x1b[2J\u202egnp\x00\u2028x", r"\[2J gnp x"),
    ],
)
def test_foreign_text_is_shown_literally(text: str, shown: str) -> None:
    assert markdown(text) == shown


@given(st.text(min_size=1, max_size=300), st.text(max_size=300))
def test_no_task_id_or_message_can_leave_its_table_row(task_id: str, message: str) -> None:
    tasks = [task(task_id, None, issue(Severity.ERROR, "x", message), category=message), task("plain", True)]
    if task_id == "plain":
        return
    rows = [
        line
        for line in render_summary(report(tasks), FACTS, tasks).split("\n")
        if line.startswith("| ") and "| unavailable |" in line
    ]
    assert len(rows) == 1
    assert rows[0].count("|") == 6
    assert not re.search(r"[<>\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", rows[0])


def test_long_text_is_cut_with_an_ellipsis() -> None:
    assert one_line("x" * 1000, 10) == "xxxxxxxxx…"
    assert one_line(" " * 1000 + "x", 10) == "…"
    assert one_line("x" * 10, 10) == "xxxxxxxxxx"


def test_reason_of_a_failed_run_names_the_first_task_and_how_many_there_are() -> None:
    fatal = issue(Severity.FATAL, "setup_failed", "no such image")
    one = failure_text(report([task("a", True), task("b", None, fatal)]))
    assert one == "1 of 2 tasks ended with a fatal issue; 'b': attempt 1: setup_failed: no such image"
    two = failure_text(report([task("c", None, fatal), task("b", None, fatal)]))
    assert two.startswith("2 of 2 tasks ended with a fatal issue; the first, '")
    assert failure_text(report([task("a", True)])) == ""
