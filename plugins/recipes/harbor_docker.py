"""Harbor tasks in containers: the agent works as the user that its task names."""

from __future__ import annotations

from .harbor_user import HarborUser


class HarborDocker(HarborUser):
    """For the environment ``docker``."""

    id = "harbor_docker"
    description = "Harbor tasks on docker: the agent works as the user of its task"
    environment = "docker"
