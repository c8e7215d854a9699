"""Benchmarks whose tasks name no image, and need a shell and Python only."""

from __future__ import annotations

from ...contracts.plan import ExecutionPlan
from ...contracts.request import EnvironmentSetup, RunRequest
from ...contracts.task import TaskSpec
from .fitting import PYTHON_IMAGE, Fitting, Wishes, names_image


class PythonImage(Fitting):
    """An image with Python, where neither the configuration nor the task names anything."""

    def wishes(self, request: RunRequest, plan: ExecutionPlan, task: TaskSpec) -> Wishes | None:
        """The image; a snapshot or an image of the configuration stays."""
        del request, task
        if names_image(plan.environment):
            return None
        return Wishes(setup=EnvironmentSetup(image=PYTHON_IMAGE))
