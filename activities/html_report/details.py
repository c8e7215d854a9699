"""One task as the page shows it when it is opened: bounded, masked, and without anything that acts."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from pydantic import Field, JsonValue

from ...contracts.base import Contract
from ...contracts.records import AttemptRecord, TaskRecord
from ...contracts.result import TrajectoryStep
from ...contracts.task import TaskSpec
from ..redaction import REDACTOR
from ..store import BrowsedTask, UnclassifiedTask
from ..store.writer import CONTENT_KEYS
from .texts import TextBudget, as_text

MAX_ATTEMPTS = 100
MAX_STEPS = 400
MAX_ITEMS = 50
"""Issues, tool calls of a step, artifacts, metrics and findings: of each at most so many are shown."""
_SHORT = 300
_LEAST_ATTEMPT_CHARS = 300
"""With less an attempt would tell nothing; then fewer attempts are shown."""


class IssueDetail(Contract):
    """One issue."""

    severity: str
    phase: str
    code: str
    message: str


class CallDetail(Contract):
    """A tool call, or what came back for one (then without a name)."""

    name: str = ""
    text: str = ""


class StepDetail(Contract):
    """One step of a trajectory."""

    number: int
    source: str
    text: str = ""
    reasoning: str = ""
    calls: list[CallDetail] = Field(default_factory=list)
    observations: list[CallDetail] = Field(default_factory=list)
    facts: list[str] = Field(default_factory=list)
    """Model, tokens, seconds, cost and stop reason, as far as they are known."""


class AttemptDetail(Contract):
    """One attempt."""

    number: str
    status: str
    metrics: dict[str, bool | int | float] = Field(default_factory=dict)
    answer: str = ""
    issues: list[IssueDetail] = Field(default_factory=list)
    head: list[StepDetail] = Field(default_factory=list)
    """The first steps; ``tail`` the last ones. Between them ``omitted`` steps are left out."""
    omitted: int = 0
    tail: list[StepDetail] = Field(default_factory=list)
    timings: dict[str, float] = Field(default_factory=dict)
    artifacts: list[str] = Field(default_factory=list)
    findings: list[str] = Field(default_factory=list)
    more: str = ""
    """``meta`` and ``extra`` as JSON."""


class TaskDetail(Contract):
    """Everything that is embedded of one task."""

    question: str = ""
    truth: str = ""
    problem: str = ""
    """Why the record cannot be shown in full."""
    content: str = ""
    """The record of an older version, as JSON."""
    retries: int = 0
    attempts: list[AttemptDetail] = Field(default_factory=list)
    more_attempts: int = 0
    cut: int = 0
    """Characters that were left out; the record file has them."""


def task_detail(task: BrowsedTask, spec: TaskSpec | None, limit: int) -> TaskDetail:
    """``task`` in at most about ``limit`` characters of text."""
    budget = TextBudget(limit)
    detail = TaskDetail(problem=budget.take(task.problem, 0.2))
    if isinstance(task.record, UnclassifiedTask):
        detail.problem = budget.take(f"{task.record.schema_version}: {task.record.reason}", 0.2)
        detail.content = budget.take(REDACTOR.value(task.record.content, CONTENT_KEYS))
    elif isinstance(task.record, TaskRecord):
        _fill(detail, task.record, budget)
    if spec is not None:
        detail.truth = detail.truth or budget.take(spec.ground_truth, 0.3)
        detail.question = budget.take(spec.question)
    detail.cut = budget.cut
    return detail


def _fill(detail: TaskDetail, record: TaskRecord, budget: TextBudget) -> None:
    """The attempts share three quarters; the question gets what is left."""
    detail.retries = record.retry_count
    detail.truth = budget.take(record.ground_truth, 0.1)
    attempts = sorted(record.attempts.items(), key=lambda item: (len(item[0]), item[0]))
    shown = attempts[: max(1, min(MAX_ATTEMPTS, budget.left // _LEAST_ATTEMPT_CHARS))]
    detail.more_attempts = len(attempts) - len(shown)
    pool = budget.part(0.8)
    for index, (number, attempt) in enumerate(shown):
        part = pool.part(1 / (len(shown) - index))
        detail.attempts.append(_attempt(number, attempt, part))
        pool.give_back(part)
    budget.give_back(pool)


def _metrics(record: AttemptRecord) -> Iterator[tuple[str, bool | int | float]]:
    """Those of the whole, then those of the steps of a task that is given step by step."""
    yield from record.metrics.items()
    for step in record.steps:
        for name, value in step.metrics.items():
            if isinstance(value, bool | int | float):
                yield f"{step.name}: {name}", value


def _attempt(number: str, record: AttemptRecord, budget: TextBudget) -> AttemptDetail:
    """First what explains the result, then the answer, then the steps."""
    detail = AttemptDetail(
        number=budget.name(number),
        status=record.status.value,
        metrics={budget.name(name): value for name, value in islice(_metrics(record), MAX_ITEMS)},
        issues=[
            IssueDetail(
                severity=issue.severity.value,
                phase=issue.phase.value,
                code=budget.name(issue.code),
                message=budget.take(REDACTOR.text(issue.message), 0.15),
            )
            for issue in record.issues[:MAX_ITEMS]
        ],
        timings={budget.name(name): value for name, value in islice(record.meta.timings.items(), MAX_ITEMS)},
        artifacts=[budget.name(name) for name in islice(record.artifacts, MAX_ITEMS)],
        findings=_findings(record, budget),
        answer=budget.take(record.final_answer, 0.3),
    )
    more = {"benchmark": record.meta.benchmark, "harness": record.meta.harness, "extra": record.extra}
    known = {name: value for name, value in more.items() if value}
    if known:
        detail.more = budget.take(REDACTOR.value(known, CONTENT_KEYS), 0.1)
    if record.trajectory is not None:
        _steps(detail, record.trajectory.steps, budget)
    return detail


def _findings(record: AttemptRecord, budget: TextBudget) -> list[str]:
    lines: list[str] = []
    for analyzer, result in record.analysis_result.items():
        if result.error:
            lines.append(f"{analyzer} failed: {result.error}")
        for finding in result.findings:
            value = "" if finding.value is None else f" = {finding.value}"
            lines.append(f"{analyzer}: {finding.label}{value}")
    return [budget.name(line) for line in lines[:MAX_ITEMS]]


def _steps(detail: AttemptDetail, steps: list[TrajectoryStep], budget: TextBudget) -> None:
    """Steps from the beginning in a third of the room, then from the end: there the answer is made."""
    first, last = 0, len(steps)
    front = budget.part(1 / 3 if len(steps) > 3 else 1)
    while first < last and first < MAX_STEPS // 3 and front.left > _SHORT:
        detail.head.append(_step(steps[first], front, len(steps) - first))
        first += 1
    budget.give_back(front)
    while first < last and len(detail.head) + len(detail.tail) < MAX_STEPS and budget.left > _SHORT:
        last -= 1
        detail.tail.append(_step(steps[last], budget, last + 1 - first))
    detail.tail.reverse()
    detail.omitted = last - first


def _step(step: TrajectoryStep, whole: TextBudget, waiting: int) -> StepDetail:
    """``step`` in a quarter of what is left, or in more when fewer than four steps are ``waiting``."""
    budget = whole.part(max(0.25, 1 / waiting))
    detail = StepDetail(
        number=step.step_id,
        source=step.source,
        text=budget.take(step.message, 0.6),
        facts=[budget.name(fact) for fact in _facts(step)],
        calls=[
            CallDetail(name=budget.name(call.name), text=budget.take(_readable(call.arguments), 0.6))
            for call in step.tool_calls[:MAX_ITEMS]
        ],
        observations=[
            CallDetail(text=budget.take(_readable(item.content), 0.6))
            for item in step.observations[:MAX_ITEMS]
        ],
        reasoning=budget.take(step.reasoning),
    )
    whole.give_back(budget)
    return detail


def _readable(value: JsonValue) -> JsonValue:
    """Named texts line by line, so that a command or its output is read as it is and not as a JSON string."""
    if not isinstance(value, dict) or not any(isinstance(item, str) for item in value.values()):
        return value
    if len(value) == 1:
        return next(iter(value.values()))
    lines: list[str] = []
    for name, item in value.items():
        text = as_text(item)
        lines.append(f"{name}:\n{text}" if "\n" in text else f"{name}: {text}")
    return "\n".join(lines)


def _facts(step: TrajectoryStep) -> list[str]:
    usage = step.usage
    facts = [
        step.model,
        f"{usage.prompt_tokens} tokens in" if usage and usage.prompt_tokens is not None else None,
        f"{usage.completion_tokens} out" if usage and usage.completion_tokens is not None else None,
        f"{step.latency_seconds:.2f} s" if step.latency_seconds is not None else None,
        f"${step.cost_usd:.4g}" if step.cost_usd is not None else None,
        f"stopped: {step.stop_reason}" if step.stop_reason else None,
    ]
    return [fact[:_SHORT] for fact in facts if fact]
