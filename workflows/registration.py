"""The workflows that a worker serves."""

from .attempt import AttemptWorkflow
from .launch import LaunchWorkflow
from .provider_pool import ProviderPoolWorkflow
from .reaper import ReaperWorkflow
from .request import RequestWorkflow
from .scheduled_launch import ScheduledLaunchWorkflow

WORKFLOWS: list[type] = [
    LaunchWorkflow,
    RequestWorkflow,
    AttemptWorkflow,
    ProviderPoolWorkflow,
    ReaperWorkflow,
    ScheduledLaunchWorkflow,
]
