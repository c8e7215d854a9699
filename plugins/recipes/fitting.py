"""What the recipes of one benchmark for one environment share: they fill what nobody else has said."""

from __future__ import annotations

import abc
from typing import ClassVar, TypeVar

from pydantic import Field, JsonValue

from ...contracts.base import Contract
from ...contracts.component import NoParams
from ...contracts.plan import ExecutionPlan
from ...contracts.recipe import Recipe
from ...contracts.request import EnvironmentSetup, EnvironmentSpec, ResourceRequirements, RunRequest
from ...contracts.task import TaskSpec

ContractT = TypeVar("ContractT", bound=Contract)

PYTHON_IMAGE = "python:3.12-slim"
"""For tasks that need Python and name no image: the same one in every environment, so that scores compare."""


class Wishes(Contract):
    """What a benchmark would like an environment to be. What the user or the task says comes first."""

    setup: EnvironmentSetup = Field(default_factory=EnvironmentSetup)
    resources: ResourceRequirements = Field(default_factory=ResourceRequirements)
    params: dict[str, JsonValue] = Field(default_factory=dict)
    """Parameters of the provider, by their names there."""
    run_env_variables: dict[str, str] = Field(default_factory=dict)
    """Of the agent's commands only: a verifier has its own."""


class Fitting(Recipe[NoParams]):
    """Fits the tasks of ``benchmark`` into sandboxes of ``environment``."""

    benchmark: ClassVar[str]
    environment: ClassVar[str]

    @abc.abstractmethod
    def wishes(self, request: RunRequest, plan: ExecutionPlan, task: TaskSpec) -> Wishes | None:
        """For this task; ``None`` when there is nothing to add."""

    def matches(self, request: RunRequest, task: TaskSpec, plan: ExecutionPlan) -> bool:
        """Tasks of the benchmark in the environment, for which there is something to add."""
        ours = request.benchmark.id == self.benchmark and plan.environment.id == self.environment
        return ours and self.wishes(request, plan, task) is not None

    def apply(self, plan: ExecutionPlan, request: RunRequest, task: TaskSpec) -> ExecutionPlan:
        """The same plan with the gaps filled; a verifier's fresh environment follows from it."""
        wishes = self.wishes(request, plan, task)
        if wishes is None:
            return plan
        return plan.model_copy(update={"environment": _filled_in(plan.environment, wishes)})


def _filled_in(environment: EnvironmentSpec, wishes: Wishes) -> EnvironmentSpec:
    setup = _with_gaps_filled(environment.setup, wishes.setup)
    return environment.model_copy(
        update={
            "setup": setup,
            "resources": _with_gaps_filled(environment.resources, wishes.resources),
            "params": {**wishes.params, **environment.params},
            "run_env_variables": {**wishes.run_env_variables, **environment.run_env_variables},
        }
    )


def _with_gaps_filled(given: ContractT, wished: ContractT) -> ContractT:
    missing = {
        name: getattr(wished, name) for name in type(given).model_fields if getattr(given, name) is None
    }
    return given.model_copy(update=missing)


def names_image(environment: EnvironmentSpec) -> bool:
    """Whether somebody has said what a sandbox is made of."""
    setup = environment.setup
    made_of = (setup.image, setup.build_context, setup.compose_file)
    return any(made_of) or any(environment.params.get(name) for name in ("image", "snapshot"))
