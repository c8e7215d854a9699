"""Harbor tasks in sandboxes at Daytona: the agent works as the user that its task names."""

from __future__ import annotations

from .harbor_user import HarborUser


class HarborDaytona(HarborUser):
    """For the environment ``daytona``."""

    id = "harbor_daytona"
    description = "Harbor tasks on daytona: the user of its task, and the task's time to get an image"
    environment = "daytona"
    opening_parameter = "open_timeout_seconds"
