"""What an exception of a hook means: one row per rule of the specification."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from pydantic import ValidationError

from agentcompass.activities.classification import classify, describe, diagnostics_of, make_issue
from agentcompass.activities.redaction import REDACTOR
from agentcompass.contracts.environment import EnvironmentLostError
from agentcompass.contracts.errors import StageFailure
from agentcompass.contracts.issues import Issue, IssuePhase, Severity
from agentcompass.contracts.phases import Phase
from agentcompass.plugins.models import ModelResponse, require_output
from agentcompass.plugins.models.failures import failure_for
from agentcompass.plugins.models.retry import Fault, FaultKind

FATAL, ERROR, WARNING = Severity.FATAL, Severity.ERROR, Severity.WARNING
KEY = "sk-live-0123456789abcdef"


@pytest.fixture(scope="module", autouse=True)
def known_secret() -> Iterator[None]:
    REDACTOR.register(KEY)
    yield


def model(status: int, code: str = "") -> StageFailure:
    fault = Fault(kind=FaultKind.STATUS, detail="refused", status=status, code=code)
    return failure_for([fault], "api.example.org", IssuePhase.RUN)


def no_status(kind: FaultKind) -> StageFailure:
    return failure_for([Fault(kind=kind, detail="")], "api.example.org", IssuePhase.RUN)


def named(severity: Severity, phase: IssuePhase, code: str) -> StageFailure:
    return StageFailure(Issue(severity=severity, phase=phase, code=code, message="said by its author"))


def answered_nothing() -> StageFailure:
    """What becomes of an answer without text or tool call, as the harnesses see it."""
    with pytest.raises(StageFailure) as caught:
        require_output(ModelResponse(content=" \n", model="m", stop_reason="stop"))
    return caught.value


def raised(
    outer: Exception, inner: BaseException, *, hidden: bool = False, implicit: bool = False
) -> Exception:
    """``outer`` as it is after it was raised from, or while handling, ``inner``."""
    try:
        try:
            raise inner
        except BaseException as error:
            if implicit:
                raise outer  # noqa: B904 - what this makes is the subject
            raise outer from (None if hidden else error)
    except Exception as error:
        return error


BOOM = ValueError("boom")
ROWS = [
    ("planning raises", BOOM, Phase.PLAN, FATAL, "setup", "setup_failed"),
    ("preparation raises", BOOM, Phase.PREPARE_TASK, FATAL, "setup", "setup_failed"),
    ("preparation takes too long", TimeoutError(), Phase.PREPARE_TASK, FATAL, "setup", "setup_failed"),
    ("environment cannot be opened", OSError("x"), Phase.OPEN_ENVIRONMENT, FATAL, "setup", "environment_open_failed"),
    ("environment opens too slowly", TimeoutError(), Phase.OPEN_ENVIRONMENT, FATAL, "setup", "environment_open_failed"),
    ("harness cannot start", BOOM, Phase.START_HARNESS, FATAL, "setup", "harness_failed"),
    ("harness raises", BOOM, Phase.RUN_HARNESS, FATAL, "run", "harness_failed"),
    ("run_task raises", BOOM, Phase.RUN_TASK, FATAL, "run", "harness_failed"),
    ("harness takes too long", TimeoutError("120 s"), Phase.RUN_HARNESS, ERROR, "run", "harness_timeout"),
    ("run_task takes too long", TimeoutError(), Phase.RUN_TASK, ERROR, "run", "harness_timeout"),
    ("model 401", model(401), Phase.RUN_HARNESS, FATAL, "run", "model_authentication"),
    ("model 402", model(402), Phase.RUN_HARNESS, FATAL, "run", "model_quota"),
    ("model 403", model(403), Phase.RUN_HARNESS, FATAL, "run", "model_authentication"),
    ("model 429", model(429), Phase.RUN_HARNESS, FATAL, "run", "model_rate_limited"),
    ("model 429 without credit", model(429, "insufficient_quota"), Phase.RUN_HARNESS, FATAL, "run", "model_quota"),
    ("model 500", model(500), Phase.RUN_HARNESS, FATAL, "run", "model_server_error"),
    ("model 503", model(503), Phase.RUN_HARNESS, FATAL, "run", "model_server_error"),
    ("model unreachable", no_status(FaultKind.CONNECTION), Phase.RUN_HARNESS, FATAL, "run", "model_unreachable"),
    ("model takes too long", no_status(FaultKind.TIMEOUT), Phase.RUN_HARNESS, ERROR, "run", "model_timeout"),
    ("model unreadable", no_status(FaultKind.MALFORMED), Phase.RUN_HARNESS, ERROR, "run", "model_protocol_error"),
    ("model refuses the request", model(400), Phase.RUN_HARNESS, FATAL, "run", "model_request_rejected"),
    ("model refuses the input", model(413), Phase.RUN_HARNESS, ERROR, "run", "model_request_rejected"),
    ("model answers nothing", answered_nothing(), Phase.RUN_HARNESS, ERROR, "run", "model_empty_output"),
    ("environment lost in the run", EnvironmentLostError("gone"), Phase.RUN_HARNESS, FATAL, "run", "environment_lost"),
    ("environment lost while judging", EnvironmentLostError("gone"), Phase.EVALUATE, FATAL, "evaluate", "environment_lost"),
    ("environment lost before closing", EnvironmentLostError("gone"), Phase.CLOSE_ENVIRONMENT, WARNING, "cleanup", "environment_lost"),
    ("artifacts cannot be collected", OSError("x"), Phase.COLLECT_ARTIFACTS, FATAL, "collect", "artifact_collection_failed"),
    # A file that the agent did not leave is a WARNING of the runtime's own, told in a real run by
    # integration/test_semantics_attempts.py::test_a_file_that_the_agent_did_not_leave_is_a_warning_beside_the_score;
    # a reward that cannot be read by integration/test_harbor.py::test_verifiers_without_a_usable_reward_and_agents_that_fail_are_told_apart.
    ("a benchmark misses a file itself", named(WARNING, IssuePhase.COLLECT, "artifact_missing"), Phase.COLLECT_ARTIFACTS, WARNING, "collect", "artifact_missing"),
    ("verifier's environment fails", BOOM, Phase.EVALUATE_ENVIRONMENT, FATAL, "evaluate", "environment_open_failed"),
    ("verifier raises", BOOM, Phase.EVALUATE, ERROR, "evaluate", "evaluation_failed"),
    ("verifier takes too long", TimeoutError(), Phase.EVALUATE, ERROR, "evaluate", "evaluation_timeout"),
    ("a remark that ends the evaluation", named(WARNING, IssuePhase.EVALUATE, "reward_unreadable"), Phase.EVALUATE, ERROR, "evaluate", "reward_unreadable"),
    ("an error that ends the preparation", named(ERROR, IssuePhase.SETUP, "task_input_invalid"), Phase.PREPARE_TASK, FATAL, "setup", "task_input_invalid"),
    ("a model that is slow before the run", named(ERROR, IssuePhase.RUN, "model_timeout"), Phase.START_HARNESS, ERROR, "run", "model_timeout"),
    ("judge breaks its protocol", named(FATAL, IssuePhase.EVALUATE, "judge_failed"), Phase.EVALUATE, FATAL, "evaluate", "judge_failed"),
    ("judge takes too long", no_status(FaultKind.TIMEOUT), Phase.EVALUATE, FATAL, "evaluate", "judge_failed"),
    ("judge refuses the key", model(401), Phase.EVALUATE, FATAL, "evaluate", "judge_refused"),
    ("judge refuses the account", model(402), Phase.EVALUATE, FATAL, "evaluate", "judge_refused"),
    ("judge has no key", named(FATAL, IssuePhase.SETUP, "secret_unavailable"), Phase.EVALUATE, FATAL, "evaluate", "secret_unavailable"),
    ("judge is limited", model(429), Phase.EVALUATE, FATAL, "evaluate", "judge_failed"),
    ("a refusal that the author calls a failed judge", raised(named(FATAL, IssuePhase.EVALUATE, "judge_failed"), model(403)), Phase.EVALUATE, FATAL, "evaluate", "judge_refused"),
    ("judge is down", model(502), Phase.EVALUATE, FATAL, "evaluate", "judge_failed"),
    ("judge refuses the input", model(400), Phase.EVALUATE, FATAL, "evaluate", "judge_failed"),
    ("a partial result cannot be read", BOOM, Phase.SAVE_PARTIAL, FATAL, "collect", "internal_error"),
    ("a partial result is saved too slowly", TimeoutError(), Phase.SAVE_PARTIAL, FATAL, "collect", "internal_error"),
    ("environment lost while saving a partial result", EnvironmentLostError("gone"), Phase.SAVE_PARTIAL, FATAL, "collect", "environment_lost"),
    ("cleanup raises", BOOM, Phase.CLOSE_ENVIRONMENT, WARNING, "cleanup", "cleanup_failed"),
    ("cleanup takes too long", TimeoutError(), Phase.CLOSE_ENVIRONMENT, WARNING, "cleanup", "cleanup_failed"),
    ("an analyzer raises", BOOM, Phase.ANALYZE, WARNING, "evaluate", "internal_error"),
]  # fmt: skip


@pytest.mark.parametrize(("error", "phase", "severity", "where", "code"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])  # fmt: skip
def test_classification(error: Exception, phase: Phase, severity: Severity, where: str, code: str) -> None:
    issue = classify(error, phase)
    assert (issue.severity, issue.phase, issue.code) == (severity, where, code)


def test_a_named_failure_counts_when_it_was_wrapped() -> None:
    wrapped = raised(RuntimeError("the agent failed"), model(401))
    issue = classify(wrapped, Phase.RUN_HARNESS)
    assert (issue.code, issue.message) == ("model_authentication", "HTTP 401 from api.example.org: refused")


def test_a_failure_while_a_named_one_was_handled_is_a_failure_of_its_own() -> None:
    issue = classify(raised(KeyError("fallback"), model(401), implicit=True), Phase.RUN_HARNESS)
    assert (issue.code, issue.message) == ("harness_failed", "KeyError: 'fallback'")


@pytest.mark.parametrize("implicit", [False, True])
def test_a_lost_environment_is_found_behind_any_other_failure(implicit: bool) -> None:
    error = raised(RuntimeError("cannot read reward"), EnvironmentLostError("gone"), implicit=implicit)
    issue = classify(error, Phase.EVALUATE)
    assert (issue.severity, issue.code) == (FATAL, "environment_lost")


def test_a_timeout_that_its_author_hid_is_none() -> None:
    assert classify(raised(BOOM, TimeoutError(), hidden=True), Phase.RUN_HARNESS).code == "harness_failed"
    assert classify(raised(ValueError("x"), TimeoutError()), Phase.RUN_HARNESS).code == "harness_timeout"


def test_of_a_task_group_the_worst_failure_counts() -> None:
    timeout, key = no_status(FaultKind.TIMEOUT), model(401)
    group = ExceptionGroup("tasks", [timeout, ExceptionGroup("inner", [key]), TimeoutError()])
    assert classify(group, Phase.RUN_HARNESS).code == "model_authentication"
    assert classify(raised(RuntimeError("x"), group), Phase.RUN_HARNESS).code == "model_authentication"


def test_of_equally_bad_failures_the_named_one_counts() -> None:
    group = ExceptionGroup("tasks", [ValueError("x"), model(402)])
    assert classify(group, Phase.RUN_HARNESS).code == "model_quota"


def test_a_chain_that_bites_its_tail_ends() -> None:
    first, second = ValueError("1"), ValueError("2")
    first.__cause__, second.__cause__ = second, first
    assert classify(first, Phase.PREPARE_TASK).message == "ValueError: 1"


class Unprintable(Exception):
    """Cannot be told."""

    def __str__(self) -> str:
        raise RuntimeError("no")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (Unprintable(), "Unprintable: <Unprintable without a readable text>"),
        (ValueError(), "ValueError"),
        (ValueError(None), "ValueError: None"),
        (ValueError("\n\n first \n second"), "ValueError: first"),
        (ValueError("one\r\ntwo"), "ValueError: one"),
        (ValueError("stray \udce9 byte"), "ValueError: stray ? byte"),
        (ValueError("nul \0 stays"), "ValueError: nul \0 stays"),
        (SystemExit("bye"), "SystemExit: bye"),
        (KeyError("k"), "KeyError: 'k'"),
        (ValueError(f"key {KEY}!"), "ValueError: key ***!"),
        (ValueError("x" * 3_000_000), "ValueError: " + "x" * 1988),
    ],
    ids=["unprintable", "empty", "none", "newlines", "crlf", "surrogate", "nul", "exit", "key", "secret", "huge"],
)  # fmt: skip
def test_a_message_is_one_writable_masked_line(error: BaseException, message: str) -> None:
    issue = classify(error, Phase.RUN_HARNESS)
    assert issue.message == message
    assert json.loads(issue.model_dump_json())["message"] == message


def test_a_secret_that_spans_lines_is_masked_before_the_first_line_is_taken() -> None:
    REDACTOR.register("first-half\nsecond-half")
    issue = classify(ValueError("got first-half\nsecond-half"), Phase.RUN_HARNESS)
    assert issue.message == "ValueError: got ***"


def test_a_named_message_is_cut_to_a_line_too() -> None:
    failure = StageFailure.fatal(IssuePhase.RUN, "acme.down", f"token {KEY}\nmore" + "x" * 10_000)
    assert classify(failure, Phase.RUN_HARNESS).message == "token ***"


def test_a_plugin_may_report_what_is_no_text() -> None:
    assert make_issue(WARNING, IssuePhase.RUN, "x", None).message == "None"
    assert make_issue(WARNING, IssuePhase.RUN, "x", "").message == "no message"


def test_diagnostics_hold_the_whole_chain_masked() -> None:
    text = diagnostics_of(raised(RuntimeError("outer"), ValueError(f"inner {KEY}")))
    assert "ValueError: inner ***" in text
    assert "The above exception was the direct cause" in text
    assert "RuntimeError: outer" in text
    assert "Traceback (most recent call last)" in text


def test_diagnostics_of_what_cannot_be_told_are_still_written() -> None:
    assert "Unprintable" in diagnostics_of(Unprintable())
    assert describe(Unprintable()).startswith("Unprintable: ")


def test_huge_diagnostics_keep_both_ends() -> None:
    text = diagnostics_of(ValueError("a" + "x" * 1_000_000 + "z"))
    assert len(text) < 201_000
    assert text.startswith("ValueError: a")
    assert text.endswith("z\n")
    assert "characters left out" in text


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("Traceback (most recent call last):\n  File x\nKeyError: 'a'\n", "KeyError: 'a'"),
        ("the tests failed:\n\n  3 of 7\n  (see the log)", "the tests failed: 3 of 7"),
        ("\n\n first \n second", "first"),
        (":\n:\n:", ": : :"),
    ],
)
def test_the_line_of_a_long_text_is_the_one_that_says_most(text: str, line: str) -> None:
    assert make_issue(ERROR, IssuePhase.RUN, "x", text).message == line


def test_a_failed_validation_names_its_fields() -> None:
    with pytest.raises(ValidationError) as caught:
        Issue.model_validate({"severity": "bad", "phase": "run", "message": "m"})
    assert describe(caught.value) == (
        "ValidationError: Issue.severity: Input should be 'fatal', 'error' or 'warning'; Issue.code: Field required"
    )
