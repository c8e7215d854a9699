"""What a task keeps for its hooks, beside the fields that every task has."""

from __future__ import annotations

from ....contracts.base import Contract
from ....contracts.request import EnvironmentSetup, ResourceRequirements
from ....contracts.task import TaskSpec
from .config import HealthcheckTable
from .sources import TaskSource


class HarborFacts(Contract):
    """``TaskSpec.metadata``; no path of a machine is in it, for it is the task's identity."""

    source: TaskSource
    digest: str
    """sha256 over the whole task, as in Harbor."""
    tests_digest: str
    """Of ``tests/``; what is uploaded must still be that."""
    solution_digest: str = ""
    """Of ``solution/``, where there is one."""
    builds_image: bool = False
    """True when the image is built from ``environment/``."""
    compose_file: str = ""
    """The name of a compose file in ``environment/``, whose services run beside the agent."""
    setup: EnvironmentSetup
    """Of the environment, without ``build_context`` and ``compose_file``, which are paths of a machine."""
    separate_verifier: bool = False
    verifier_setup: EnvironmentSetup | None = None
    """Of a verifier with an image of its own, without ``build_context``."""
    verifier_builds_image: bool = False
    """True when that image is built from ``tests/``."""
    verifier_resources: ResourceRequirements | None = None
    verifier_user: str | None = None
    uploads_tests: bool = True
    """False when the verifier's image brings the tests."""
    agent_user: str | None = None
    healthcheck: HealthcheckTable | None = None

    @classmethod
    def of(cls, task: TaskSpec) -> HarborFacts:
        """The facts of a loaded task."""
        return cls.model_validate(task.metadata)
