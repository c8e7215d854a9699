"""From a result to an exit code: valid or not, and whether it passes its gates."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ..activities.metrics import Gate, check_gate_names, check_gates, damaged_records, parse_gate
from ..contracts.errors import RecordError, UsageError
from ..contracts.launch import OVER_STATES, LaunchResult, LaunchStatus, RequestResult
from ..contracts.metrics import MetricContract
from ..contracts.request import AttemptsSpec
from .damage_text import MAX_DAMAGED, damage_line
from .result_text import load_report

EXIT_INVALID = 1
EXIT_CANCELLED = 130


@dataclass(frozen=True)
class Gates:
    """What a finished run must reach to count as good."""

    fail_under: tuple[Gate, ...] = ()
    max_unevaluated: int | None = None

    def check_names(self, contract: MetricContract, attempts: AttemptsSpec) -> None:
        """Refuse a metric that the run will not have, before it starts. Raises ``UsageError``."""
        check_gate_names(self.fail_under, contract, attempts)


def parse_gates(fail_under: Iterable[str] | None, max_unevaluated: int | None) -> Gates:
    """The values of ``--fail-under`` and ``--max-unevaluated``. Raises ``UsageError``."""
    if max_unevaluated is not None and max_unevaluated < 0:
        raise UsageError("--max-unevaluated: must not be negative")
    try:
        return Gates(tuple(parse_gate(text) for text in fail_under or ()), max_unevaluated)
    except UsageError as error:
        raise UsageError(f"--fail-under: {error}") from None


@dataclass(frozen=True)
class Verdict:
    """The exit code, and why it is not 0."""

    exit_code: int
    reasons: list[str] = field(default_factory=list)


def judge(requests: Sequence[RequestResult], gates: Gates, exit_code: int = 0) -> Verdict:
    """Judge finished requests. ``exit_code`` is what the launch itself says.

    A gate that cannot be checked does not pass, nor does a run with records that cannot be read.
    """
    reasons: list[str] = []
    for request in requests:
        if not request.valid:
            exit_code = exit_code or request.exit_code or EXIT_INVALID
        found = [*_damage(request), *_gate_reasons(request, gates)]
        reasons += [f"{request.key}: {reason}" for reason in found]
    return Verdict(exit_code or (EXIT_INVALID if reasons else 0), reasons)


def judge_launch(result: LaunchResult, gates: Gates) -> Verdict:
    """Judge a finished launch."""
    ended_well = result.status == "completed"
    return judge(result.requests, gates, result.exit_code or (0 if ended_well else EXIT_INVALID))


def exit_code_of(status: LaunchStatus) -> int:
    """The exit code of a launch by its state; 0 while it goes on."""
    if status.state not in OVER_STATES or status.state == "completed":
        return 0
    return EXIT_CANCELLED if status.state == "cancelled" else EXIT_INVALID


def _damage(request: RequestResult) -> list[str]:
    if not request.damaged_records:
        return []
    try:
        report = load_report(request)
    except RecordError:
        report = None
    named = damaged_records(report)[:MAX_DAMAGED] if report else []
    lines = [damage_line(item) for item in named]
    rest = request.damaged_records - len(named)
    return [*lines, f"{rest} {'more ' if named else ''}task records cannot be read"] if rest else lines


def _gate_reasons(request: RequestResult, gates: Gates) -> list[str]:
    if not gates.fail_under and gates.max_unevaluated is None:
        return []
    report = load_report(request)
    if report is None:
        return ["no metrics.json to check the gates against"]
    try:
        return check_gates(report, gates.fail_under, gates.max_unevaluated)
    except UsageError as error:  # the run is over: what it has not measured, it has not reached
        return [str(error)]
