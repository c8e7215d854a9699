"""What a refusal means for the result, and what its message says and hides."""

from __future__ import annotations

import pytest

from agentcompass.contracts import IssueCode, IssuePhase, Severity
from agentcompass.plugins.models.failures import (
    ErrorBody,
    failure_for,
    fault_for_status,
    one_line,
    read_error,
)
from agentcompass.plugins.models.retry import Fault, FaultKind

FATAL, ERROR = Severity.FATAL, Severity.ERROR


@pytest.mark.parametrize(
    ("status", "code", "message", "severity", "issue_code", "tried_again"),
    [
        (401, "invalid_api_key", "bad key", FATAL, IssueCode.MODEL_AUTHENTICATION, False),
        (403, "", "forbidden", FATAL, IssueCode.MODEL_AUTHENTICATION, False),
        (402, "", "pay", FATAL, IssueCode.MODEL_QUOTA, False),
        (429, "insufficient_quota", "quota", FATAL, IssueCode.MODEL_QUOTA, False),
        (429, "", "You exceeded your current quota, please check", FATAL, IssueCode.MODEL_QUOTA, False),
        (
            400,
            "invalid_request_error",
            "Your credit balance is too low to",
            FATAL,
            IssueCode.MODEL_QUOTA,
            False,
        ),
        (429, "rate_limit_exceeded", "slow down", FATAL, IssueCode.MODEL_RATE_LIMITED, True),
        (500, "", "oops", FATAL, IssueCode.MODEL_SERVER_ERROR, True),
        (529, "overloaded_error", "Overloaded", FATAL, IssueCode.MODEL_SERVER_ERROR, True),
        (408, "", "timeout", ERROR, IssueCode.MODEL_TIMEOUT, True),
        (404, "model_not_found", "no such model", FATAL, IssueCode.MODEL_REQUEST_REJECTED, False),
        (405, "", "use GET", FATAL, IssueCode.MODEL_REQUEST_REJECTED, False),
        (307, "", "redirected", FATAL, IssueCode.MODEL_REQUEST_REJECTED, False),
        (400, "unsupported_parameter", "no top_k", FATAL, IssueCode.MODEL_REQUEST_REJECTED, False),
        (400, "context_length_exceeded", "too long", ERROR, IssueCode.MODEL_REQUEST_REJECTED, False),
        (409, "", "conflict", FATAL, IssueCode.MODEL_REQUEST_REJECTED, False),
        (413, "", "too large", ERROR, IssueCode.MODEL_REQUEST_REJECTED, False),
        (422, "", "unprocessable", FATAL, IssueCode.MODEL_REQUEST_REJECTED, False),
        (400, "x", "bad parameter", FATAL, IssueCode.MODEL_REQUEST_REJECTED, False),
        (400, "", "prompt is too long: 9 tokens > 8 maximum", ERROR, IssueCode.MODEL_REQUEST_REJECTED, False),
        (400, "content_filter", "filtered", ERROR, IssueCode.MODEL_REQUEST_REJECTED, False),
    ],
)
def test_a_status_becomes_an_issue(
    status: int, code: str, message: str, severity: Severity, issue_code: IssueCode, tried_again: bool
) -> None:
    fault = fault_for_status(status, ErrorBody(message, code), None, "")
    issue = failure_for([fault], "example.com", IssuePhase.RUN).issue
    assert (issue.severity, issue.code, fault.transient) == (severity, issue_code, tried_again)
    assert issue.message == f"HTTP {status} from example.com: {message}"


@pytest.mark.parametrize(
    ("kind", "severity", "code"),
    [
        (FaultKind.CONNECTION, FATAL, IssueCode.MODEL_UNREACHABLE),
        (FaultKind.TIMEOUT, ERROR, IssueCode.MODEL_TIMEOUT),
        (FaultKind.MALFORMED, ERROR, IssueCode.MODEL_PROTOCOL_ERROR),
    ],
)
def test_a_fault_without_status_becomes_an_issue(
    kind: FaultKind, severity: Severity, code: IssueCode
) -> None:
    issue = failure_for([Fault(kind, "why")], "h", IssuePhase.EVALUATE).issue
    assert (issue.severity, issue.phase, issue.code) == (severity, IssuePhase.EVALUATE, code)


def test_the_message_counts_tries() -> None:
    fault = Fault(FaultKind.CONNECTION, "connection refused")
    issue = failure_for([fault] * 5, "h", IssuePhase.RUN).issue
    assert issue.message == "no connection to h (5 tries): connection refused"


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b'{"error": {"message": "no", "code": "c", "type": "t"}}', ErrorBody("no", "c")),
        (
            b'{"error": {"message": "no", "code": null, "type": "insufficient_quota"}}',
            ErrorBody("no", "insufficient_quota"),
        ),
        (
            b'{"error": {"message": "no", "code": "x", "type": "insufficient_quota"}}',
            ErrorBody("no", "insufficient_quota"),
        ),
        (
            b'{"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}',
            ErrorBody("busy", "overloaded_error"),
        ),
        (b'{"error": {"message": "no", "code": 429}}', ErrorBody("no", "", 429)),
        (b'{"error": "plain"}', ErrorBody("plain")),
        (b'{"detail": [{"msg": "field required"}]}', ErrorBody("[{'msg': 'field required'}]")),
        (b'{"object": "error", "message": "vllm says", "code": 400}', ErrorBody("vllm says")),
        (b"<h1>Bad gateway</h1>", ErrorBody("<h1>Bad gateway</h1>")),
        (b"", ErrorBody("")),
        (b"[1]", ErrorBody("[1]")),
        (b'{"error": {}}', ErrorBody("")),
        (b'{"error": {"message": 5}}', ErrorBody("")),
    ],
)
def test_the_message_is_found_in_every_error_format(raw: bytes, expected: ErrorBody) -> None:
    assert read_error(raw) == expected


def test_a_key_is_masked_before_the_text_is_cut() -> None:
    key = "sk-" + "a" * 40
    text = "x" * 290 + key
    assert one_line(text, key) == "x" * 290 + "***"


def test_a_message_is_one_bounded_line() -> None:
    text = one_line("a\r\n\tb " + "c" * 400, "")
    assert text == "a b " + "c" * 295 + "…"
    assert len(text) == 300
