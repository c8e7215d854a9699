"""From a failed try to the issue that a result carries.

Fatal is what says nothing about the model: no access, no credit, no answer from the service, and a
request that the endpoint rejects for what it is (unknown model, a parameter it does not know): that
would otherwise count as a wrong answer for every task. Only a rejection that is about the task's
own content (too long, filtered) is an error beside the score, as are timeouts and unreadable answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from ...contracts.errors import StageFailure
from ...contracts.issues import Issue, IssueCode, IssuePhase, Severity
from ...contracts.secrets import MASK
from .json_values import ProtocolViolation, decode_json, optional_text
from .retry import Fault, FaultKind, is_transient_status

MAX_MESSAGE_CHARS = 300

_QUOTA_CODES = frozenset(
    {"insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "billing_error"}
)
_QUOTA_PHRASES = ("credit balance is too low", "exceeded your current quota")
"""Anthropic reports an empty account as HTTP 400 without a code of its own."""
_CONTENT_CODES = frozenset(
    {
        "context_length_exceeded",
        "string_above_max_length",
        "content_filter",
        "content_policy_violation",
        "invalid_prompt",
        "request_too_large",
    }
)
_OVERFLOW_PHRASES = (
    "context length",
    "context window",
    "context size",
    "context_length_exceeded",
    "prompt is too long",
    "input is too long",
    "maximum context",
    "maximum number of tokens",
)
_CONTENT_PHRASES = (*_OVERFLOW_PHRASES, "content polic")


@dataclass(frozen=True)
class ErrorBody:
    """What an endpoint says about its refusal."""

    message: str
    code: str = ""
    status: int | None = None
    """An HTTP status inside the body, as gateways put it into answers with status 200."""


def one_line(text: str, secret: str, limit: int = MAX_MESSAGE_CHARS) -> str:
    """``text`` with ``secret`` masked, on one line, cut to ``limit`` characters; in that order."""
    if secret:
        text = text.replace(secret, MASK)
    text = " ".join(text.split())
    return text if len(text) <= limit else text[: limit - 1] + "…"


def read_error(raw: bytes) -> ErrorBody:
    """The message and code in an error body: of OpenAI, Anthropic, FastAPI, or plain text."""
    try:
        body = decode_json(raw[:65536])
    except ProtocolViolation:
        return ErrorBody(message=raw[:4096].decode("utf-8", errors="replace"))
    return error_in(body) or ErrorBody(message=raw[:4096].decode("utf-8", errors="replace"))


def error_in(body: JsonValue) -> ErrorBody | None:
    """The error that a decoded body reports, if any."""
    if not isinstance(body, dict):
        return None
    error = body.get("error")
    if not isinstance(error, dict):
        message = next((text for k in ("error", "message", "detail") if (text := _text(body.get(k)))), None)
        return ErrorBody(message=message, code=_code(body)) if message else None
    status = error.get("code")
    in_range = isinstance(status, int) and not isinstance(status, bool) and 400 <= status <= 599
    return ErrorBody(
        message=_text(error.get("message")) or _text(error.get("type")) or "",
        code=_code(error),
        status=status if in_range and isinstance(status, int) else None,
    )


def _text(value: JsonValue) -> str | None:
    if isinstance(value, list | dict) and value:
        return str(value)[:4096]
    return optional_text(value)


def _code(error: dict[str, JsonValue]) -> str:
    texts = [text for key in ("code", "type") if (text := optional_text(error.get(key)))]
    return next((text for text in texts if text in _QUOTA_CODES), texts[0] if texts else "")


def fault_for_status(status: int, error: ErrorBody, retry_after: float | None, secret: str) -> Fault:
    """The fault of an answer that is not a success."""
    quota = _is_quota(status, error)
    return Fault(
        kind=FaultKind.STATUS,
        detail=one_line(error.message, secret),
        status=status,
        code=error.code,
        retry_after_seconds=retry_after,
        transient=is_transient_status(status) and not quota,
    )


def _is_quota(status: int, error: ErrorBody) -> bool:
    message = error.message.lower()
    return (
        status == 402
        or error.code in _QUOTA_CODES
        or (status in (400, 403, 429) and any(phrase in message for phrase in _QUOTA_PHRASES))
    )


def failure_for(faults: Sequence[Fault], host: str, phase: IssuePhase) -> StageFailure:
    """The failure of a call whose tries ended in ``faults``; the last one decides."""
    fault = faults[-1]
    severity, code = _classify(fault)
    what = {
        FaultKind.CONNECTION: f"no connection to {host}",
        FaultKind.TIMEOUT: f"no answer from {host}",
        FaultKind.MALFORMED: f"unreadable answer from {host}",
        FaultKind.STATUS: f"HTTP {fault.status} from {host}",
    }[fault.kind]
    tries = f" ({len(faults)} tries)" if len(faults) > 1 else ""
    detail = f": {fault.detail}" if fault.detail else ""
    return StageFailure(Issue(severity=severity, phase=phase, code=code, message=what + tries + detail))


def is_context_overflow(issue: Issue) -> bool:
    """Whether a call failed because its conversation was too long for the model."""
    message = issue.message.lower()
    return issue.code == IssueCode.MODEL_REQUEST_REJECTED and (
        "http 413" in message or any(phrase in message for phrase in _OVERFLOW_PHRASES)
    )


def _classify(fault: Fault) -> tuple[Severity, IssueCode]:
    match fault.kind:
        case FaultKind.CONNECTION:
            return Severity.FATAL, IssueCode.MODEL_UNREACHABLE
        case FaultKind.TIMEOUT:
            return Severity.ERROR, IssueCode.MODEL_TIMEOUT
        case FaultKind.MALFORMED:
            return Severity.ERROR, IssueCode.MODEL_PROTOCOL_ERROR
        case FaultKind.STATUS:
            return _classify_status(fault)


def _classify_status(fault: Fault) -> tuple[Severity, IssueCode]:
    status = fault.status or 0
    if _is_quota(status, ErrorBody(message=fault.detail, code=fault.code)):
        return Severity.FATAL, IssueCode.MODEL_QUOTA
    if status in (401, 403):
        return Severity.FATAL, IssueCode.MODEL_AUTHENTICATION
    if status == 429:
        return Severity.FATAL, IssueCode.MODEL_RATE_LIMITED
    if status == 408:
        return Severity.ERROR, IssueCode.MODEL_TIMEOUT
    if status >= 500:
        return Severity.FATAL, IssueCode.MODEL_SERVER_ERROR
    if _is_about_content(status, fault):
        return Severity.ERROR, IssueCode.MODEL_REQUEST_REJECTED
    return Severity.FATAL, IssueCode.MODEL_REQUEST_REJECTED


def _is_about_content(status: int, fault: Fault) -> bool:
    """Whether another task might be accepted: 413, or a 400 or 422 about length or policy."""
    if status == 413:
        return True
    message = fault.detail.lower()
    return status in (400, 422) and (
        fault.code in _CONTENT_CODES or any(phrase in message for phrase in _CONTENT_PHRASES)
    )
