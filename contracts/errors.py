"""The exceptions of AgentCompass.

AgentCompassError
├── UsageError                   the user can mend it: exit code 2
│   ├── ConfigurationError       a key, value, file or variable of the configuration
│   ├── UnknownComponentError    no such benchmark, harness, environment, recipe or analyzer
│   ├── PluginError              an extension could not be imported or registered
│   ├── DatasetError             the task list is missing, empty, broken or ambiguous
│   └── RunDirectoryError        the run directory exists, is held by another driver, or cannot be written
├── ServiceUnreachableError      Temporal, a model endpoint or a provider does not answer: exit code 3
├── RecordError                  a file of a run directory does not follow its schema
└── StageFailure                 a phase failed; carries the Issue that says how
"""

from __future__ import annotations

from typing import ClassVar

from .issues import Issue, IssuePhase, Severity


class AgentCompassError(Exception):
    """Root of every exception that AgentCompass raises on purpose."""

    exit_code: ClassVar[int] = 1


class UsageError(AgentCompassError):
    """The request cannot be carried out as it was written; the message says what to change."""

    exit_code = 2


class ConfigurationError(UsageError):
    """A key, value, file or environment variable of the configuration is wrong."""


class UnknownComponentError(UsageError):
    """No component of that kind has that id; the message names the nearest ones."""


class PluginError(UsageError):
    """An extension could not be imported or registered; the message names it."""


class DatasetError(UsageError):
    """The task list cannot be used: missing file, no task, an empty or repeated task id."""


class RunDirectoryError(UsageError):
    """The run directory exists already, belongs to another driver, or cannot be written."""


class ServiceUnreachableError(AgentCompassError):
    """A needed service does not answer; the message names its address."""

    exit_code = 3


class RecordError(AgentCompassError):
    """A file of a run directory is not what its schema says."""


class StageFailure(AgentCompassError):
    """A phase of an attempt failed in a way its author could name.

    Plugins raise it to choose severity and code themselves; every other exception is
    classified by the runtime (see ``activities/classification.py``).
    """

    def __init__(self, issue: Issue) -> None:
        super().__init__(issue.message)
        self.issue = issue

    @classmethod
    def fatal(cls, phase: IssuePhase, code: str, message: str) -> StageFailure:
        """A failure of the surroundings: the attempt cannot be scored."""
        return cls(Issue(severity=Severity.FATAL, phase=phase, code=code, message=message))

    @classmethod
    def error(cls, phase: IssuePhase, code: str, message: str) -> StageFailure:
        """A failure of the agent or the model: what it left is still scored."""
        return cls(Issue(severity=Severity.ERROR, phase=phase, code=code, message=message))
