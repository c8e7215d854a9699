"""Harbor tasks in sandboxes at Daytona: the agent works as the user that its task names."""

from __future__ import annotations

from .harbor_user import HarborUser


class HarborDaytona(HarborUser):
    """For the environment ``daytona``."""

    id = "harbor_daytona"
    description = "Harbor tasks on daytona: the agent works as the user of its task"
    environment = "daytona"
