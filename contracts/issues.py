"""Issues: the only error contract of a result.

An issue says how bad it is (severity), where it happened (phase), what it is (a stable code)
and gives one redacted line for people. Its codes are listed in :data:`ISSUE_CODES`; plugins may
add codes of their own, which should start with the plugin's id and a dot.
"""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field, field_validator

from .base import Contract

MAX_MESSAGE_CHARS = 4000
"""A longer message is cut."""


class Severity(StrEnum):
    """How an issue acts on the score.

    ``fatal`` invalidates the task, ``error`` stands beside a valid score, ``warning`` is a remark.
    """

    FATAL = "fatal"
    ERROR = "error"
    WARNING = "warning"


class IssuePhase(StrEnum):
    """The part of an attempt in which an issue arose."""

    SETUP = "setup"
    RUN = "run"
    COLLECT = "collect"
    EVALUATE = "evaluate"
    CLEANUP = "cleanup"


class Issue(Contract):
    """One thing that went wrong in an attempt."""

    severity: Severity
    phase: IssuePhase
    code: str = Field(min_length=1, max_length=200)
    message: str = Field(max_length=MAX_MESSAGE_CHARS)

    @field_validator("code", "message", mode="before")
    @classmethod
    def _writable(cls, value: object) -> object:
        """Cut what is too long, and replace what UTF-8 cannot hold: an author's text is never a reason
        to lose the issue that it describes."""
        if not isinstance(value, str):
            return value
        return value[:MAX_MESSAGE_CHARS].encode("utf-8", "replace").decode("utf-8")


class IssueCode(StrEnum):
    """The stable codes of the runtime and the built-in components."""

    SETUP_FAILED = "setup_failed"
    TASK_INPUT_INVALID = "task_input_invalid"
    ENVIRONMENT_OPEN_FAILED = "environment_open_failed"
    ENVIRONMENT_LOST = "environment_lost"
    ENVIRONMENT_FAILED = "environment_failed"
    SERVICE_FAILED = "service_failed"
    NETWORK_POLICY_FAILED = "network_policy_failed"
    SECRET_UNAVAILABLE = "secret_unavailable"
    MODEL_AUTHENTICATION = "model_authentication"
    MODEL_QUOTA = "model_quota"
    MODEL_RATE_LIMITED = "model_rate_limited"
    MODEL_SERVER_ERROR = "model_server_error"
    MODEL_UNREACHABLE = "model_unreachable"
    MODEL_REQUEST_REJECTED = "model_request_rejected"
    MODEL_PROTOCOL_ERROR = "model_protocol_error"
    MODEL_TIMEOUT = "model_timeout"
    MODEL_EMPTY_OUTPUT = "model_empty_output"
    HARNESS_FAILED = "harness_failed"
    HARNESS_TIMEOUT = "harness_timeout"
    AGENT_EXIT_STATUS = "agent_exit_status"
    RESULT_COLLECTION_FAILED = "result_collection_failed"
    ARTIFACT_COLLECTION_FAILED = "artifact_collection_failed"
    ARTIFACT_REFUSED = "artifact_refused"
    ARTIFACT_RESTORE_FAILED = "artifact_restore_failed"
    ARTIFACT_MISSING = "artifact_missing"
    EVALUATION_FAILED = "evaluation_failed"
    EVALUATION_TIMEOUT = "evaluation_timeout"
    JUDGE_FAILED = "judge_failed"
    JUDGE_REFUSED = "judge_refused"
    REWARD_UNREADABLE = "reward_unreadable"
    METRIC_INVALID = "metric_invalid"
    CLEANUP_FAILED = "cleanup_failed"
    ENDED_BY_OPERATOR = "ended_by_operator"
    WORKER_LOST = "worker_lost"
    HOST_LOST = "host_lost"
    CANCELLED = "cancelled"
    INTERNAL_ERROR = "internal_error"


BLOCKING_CODES = frozenset(
    {
        IssueCode.MODEL_AUTHENTICATION,
        IssueCode.MODEL_QUOTA,
        IssueCode.JUDGE_REFUSED,
        IssueCode.SECRET_UNAVAILABLE,
    }
)
"""Codes that open the circuit breaker: every other attempt would fail in the same way, too."""

ISSUE_CODES: dict[IssueCode, str] = {
    IssueCode.SETUP_FAILED: "Planning, or a preparation step of the benchmark, raised.",
    IssueCode.TASK_INPUT_INVALID: "The task's own data cannot be prepared.",
    IssueCode.ENVIRONMENT_OPEN_FAILED: "The provider could not create the environment.",
    IssueCode.ENVIRONMENT_LOST: "The environment vanished, or its host stopped answering.",
    IssueCode.ENVIRONMENT_FAILED: "A command or file operation failed in the environment itself.",
    IssueCode.SERVICE_FAILED: "A service of the task beside the sandbox had ended or was unhealthy at the end.",
    IssueCode.NETWORK_POLICY_FAILED: "The provider cannot enforce a network policy, or could not switch to it.",
    IssueCode.SECRET_UNAVAILABLE: "A referenced secret cannot be resolved on the worker.",
    IssueCode.MODEL_AUTHENTICATION: "The model endpoint refused the credentials (401, 403).",
    IssueCode.MODEL_QUOTA: "The model account has no credit or quota left (402, 429 with a quota code).",
    IssueCode.MODEL_RATE_LIMITED: "The model endpoint still said 429 after the client's own retries.",
    IssueCode.MODEL_SERVER_ERROR: "The model endpoint still answered 5xx after the client's own retries.",
    IssueCode.MODEL_UNREACHABLE: "No connection to the model endpoint after the client's own retries.",
    IssueCode.MODEL_REQUEST_REJECTED: "The model endpoint rejected the request (other 4xx).",
    IssueCode.MODEL_PROTOCOL_ERROR: "The answer of the model endpoint does not follow its protocol.",
    IssueCode.MODEL_TIMEOUT: "A model call took longer than its own limit.",
    IssueCode.MODEL_EMPTY_OUTPUT: "The model answered, but with no usable output.",
    IssueCode.HARNESS_FAILED: "The harness raised while it drove the agent.",
    IssueCode.HARNESS_TIMEOUT: "The agent used up its run budget; what it left is evaluated.",
    IssueCode.AGENT_EXIT_STATUS: "The agent's process ended with a non-zero status.",
    IssueCode.RESULT_COLLECTION_FAILED: "The harness could not collect its result.",
    IssueCode.ARTIFACT_COLLECTION_FAILED: "Declared artifacts could not be prepared or transferred.",
    IssueCode.ARTIFACT_REFUSED: "Something that the agent left is no plain file, or leads out; it was left out.",
    IssueCode.ARTIFACT_RESTORE_FAILED: "Collected artifacts could not be verified or restored for the evaluation.",
    IssueCode.ARTIFACT_MISSING: "The agent did not deliver a file that the task expects.",
    IssueCode.EVALUATION_FAILED: "The verifier raised; there is no score.",
    IssueCode.EVALUATION_TIMEOUT: "The verifier used up its budget; there is no score.",
    IssueCode.JUDGE_FAILED: "The judge model failed, or broke its output protocol.",
    IssueCode.JUDGE_REFUSED: "The judge model's endpoint refused the credentials or the account.",
    IssueCode.REWARD_UNREADABLE: "The verifier's reward is missing or unreadable; counted as a valid fail.",
    IssueCode.METRIC_INVALID: "The benchmark returned an undeclared or ill-typed metric.",
    IssueCode.CLEANUP_FAILED: "An environment or session could not be closed.",
    IssueCode.ENDED_BY_OPERATOR: "An operator ended the phase (`agentcompass end`); what it left is evaluated.",
    IssueCode.WORKER_LOST: "Infrastructure failed for longer than its bounds allow, or the phase ends every worker.",
    IssueCode.HOST_LOST: "No worker of the environment's host was there (`host_lost_after_seconds`), several times over.",
    IssueCode.CANCELLED: "The attempt was cancelled.",
    IssueCode.INTERNAL_ERROR: "AgentCompass itself failed; please report it.",
}
"""What each code means, in one line; documented in ``docs/issues.md``."""
