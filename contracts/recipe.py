"""Recipes: adjustments of an execution plan for a kind of task, without side effects."""

from __future__ import annotations

import abc
from typing import ClassVar, TypeVar

from pydantic import BaseModel

from .component import Component
from .plan import ExecutionPlan
from .request import RunRequest
from .task import TaskSpec

ParamsT = TypeVar("ParamsT", bound=BaseModel)


class Recipe(Component[ParamsT]):
    """Applied in order of ``priority`` (low first), then of registration."""

    priority: ClassVar[int] = 100

    @abc.abstractmethod
    def matches(self, request: RunRequest, task: TaskSpec, plan: ExecutionPlan) -> bool:
        """True when the recipe has something to say about this plan."""

    @abc.abstractmethod
    def apply(self, plan: ExecutionPlan, request: RunRequest, task: TaskSpec) -> ExecutionPlan:
        """A changed copy of the plan. What the user set explicitly is restored afterwards.

        ``plan.budgets`` holds bases here: the request's multipliers scale them in the end. Policies,
        budgets and the verifier's environment follow the fields that they derive from (a base in
        ``plan.benchmark_plan``, say) unless a recipe sets them. What it raises costs this task only.
        """
