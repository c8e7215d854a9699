"""Harbor tasks in sandboxes at Modal: the agent works as the user that its task names."""

from __future__ import annotations

from .harbor_user import HarborUser


class HarborModal(HarborUser):
    """For the environment ``modal``, which takes the time for building an image from the task itself."""

    id = "harbor_modal"
    description = "Harbor tasks on modal: the agent works as the user of its task"
    environment = "modal"
