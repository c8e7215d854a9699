"""What a check found."""

from __future__ import annotations

from enum import StrEnum

from ...contracts.base import Contract


class State(StrEnum):
    """How a check ended.

    ``ok`` works; ``info`` is told for completeness; ``warning`` works, or is needed for some runs only;
    ``failed`` has to be mended; ``unreachable`` is a service that does not answer.
    """

    OK = "ok"
    INFO = "info"
    WARNING = "warning"
    FAILED = "failed"
    UNREACHABLE = "unreachable"


class Finding(Contract):
    """One line of the report."""

    area: str
    name: str
    state: State
    detail: str
    advice: str = ""
    """What to do; there for everything that is not ``ok`` or ``info``."""


class DoctorReport(Contract):
    """Everything that was found."""

    findings: list[Finding]

    @property
    def exit_code(self) -> int:
        """1 when something failed, 3 when a needed service cannot be reached, else 0."""
        states = {finding.state for finding in self.findings}
        if State.FAILED in states:
            return 1
        return 3 if State.UNREACHABLE in states else 0


def ok(area: str, name: str, detail: str) -> Finding:
    """It works."""
    return Finding(area=area, name=name, state=State.OK, detail=detail)


def info(area: str, name: str, detail: str) -> Finding:
    """Nothing to judge."""
    return Finding(area=area, name=name, state=State.INFO, detail=detail)


def warning(area: str, name: str, detail: str, advice: str) -> Finding:
    """It works, or only some runs need it."""
    return Finding(area=area, name=name, state=State.WARNING, detail=detail, advice=advice)


def failed(area: str, name: str, detail: str, advice: str) -> Finding:
    """It has to be mended."""
    return Finding(area=area, name=name, state=State.FAILED, detail=detail, advice=advice)


def unreachable(area: str, name: str, detail: str, advice: str) -> Finding:
    """A needed service does not answer."""
    return Finding(area=area, name=name, state=State.UNREACHABLE, detail=detail, advice=advice)
