"""The workflows that a worker serves."""

from .attempt import AttemptWorkflow
from .launch import LaunchWorkflow
from .request import RequestWorkflow

WORKFLOWS: list[type] = [LaunchWorkflow, RequestWorkflow, AttemptWorkflow]
