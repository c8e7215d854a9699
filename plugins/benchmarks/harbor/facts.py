"""What a task keeps for its hooks, beside the fields that every task has."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from ....contracts.base import Contract
from ....contracts.request import EnvironmentSetup, ResourceRequirements
from ....contracts.task import TaskSpec
from .config import HealthcheckTable
from .sources import TaskSource


class FolderPart(Contract):
    """A folder of the task that is uploaded; what is uploaded must still be what was loaded."""

    path: str
    """Relative to the task's folder."""
    digest: str
    """sha256 over it, as in Harbor."""


class StepFacts(Contract):
    """A step of a task."""

    first: bool = False
    workdir: FolderPart | None = None
    """What is put into the work directory before the step."""
    setup_script: bool = False
    """Whether a ``setup.sh`` among it is executed there."""
    healthcheck: HealthcheckTable | None = None
    thresholds: dict[str, float] = Field(default_factory=dict)
    """What each reward has to reach for the next step to follow."""


class HarborFacts(Contract):
    """``TaskSpec.metadata``; no path of a machine is in it, for it is the task's identity."""

    source: TaskSource
    digest: str
    """sha256 over the whole task, as in Harbor."""
    tests: list[FolderPart] = Field(default_factory=list)
    """What goes to ``/tests``, one over the other: ``tests/``, then that of the step."""
    test_script: str = "tests/test.sh"
    """That which runs; another one is covered by it."""
    solution: FolderPart | None = None
    """``solution/``, or that of the step, where there is a ``solve.sh``."""
    builds_image: bool = False
    """True when the image is built from ``environment/``."""
    compose_file: str = ""
    """The name of a compose file in ``environment/``, whose services run beside the agent."""
    setup: EnvironmentSetup
    """Of the environment, without ``build_context`` and ``compose_file``, which are paths of a machine."""
    separate_verifier: bool = False
    verifier_setup: EnvironmentSetup | None = None
    """Of a verifier with an image of its own, without ``build_context``."""
    verifier_context: str = ""
    """The folder in the task that that image is built from; empty when it is not built."""
    verifier_resources: ResourceRequirements | None = None
    verifier_user: str | None = None
    uploads_tests: bool = True
    """False when the verifier's image brings the tests."""
    agent_user: str | None = None
    healthcheck: HealthcheckTable | None = None
    """Of the environment."""
    reward_strategy: Literal["mean", "final"] = "mean"
    """Of a task of several steps."""
    step: StepFacts | None = None
    """What belongs to a step alone; ``None`` in a task without steps, and of the whole of one with steps."""

    @classmethod
    def of(cls, task: TaskSpec) -> HarborFacts:
        """The facts of a loaded task."""
        return cls.model_validate(task.metadata)
