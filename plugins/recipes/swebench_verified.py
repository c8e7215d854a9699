"""The official images of SWE-bench in sandboxes: as the package ``swebench`` uses them, and as large as they need."""

from __future__ import annotations

from pydantic import JsonValue

from ...contracts.plan import ExecutionPlan
from ...contracts.request import EnvironmentSetup, ResourceRequirements, RunRequest
from ...contracts.task import TaskSpec
from .fitting import Fitting, Wishes

_FOLDER, _USER = "/testbed", "root"
_PLATFORM = "linux/amd64"
"""There are images for no other."""
_OPENING_SECONDS = 3600.0
"""Images have up to some gigabytes; the first pull of one takes its time."""
_REMOTE = ResourceRequirements(cpu=2, memory_mb=8192)
"""Where a sandbox is smaller than that by default, test suites run out of memory."""
_DISK_MB = 10_240
_VARIABLES = {
    # The image's ~/.bashrc activates the project's conda environment; shells that are no login shells read it so.
    "BASH_ENV": "/root/.bashrc",
    "PAGER": "cat",
    "MANPAGER": "cat",
    "PIP_PROGRESS_BAR": "off",
    "TQDM_DISABLE": "1",
}


class OfficialImage(Fitting):
    """Tasks that run in the image that they name; one of the configuration is left alone."""

    benchmark = "swebench_verified"

    def wishes(self, request: RunRequest, plan: ExecutionPlan, task: TaskSpec) -> Wishes | None:
        """What the official evaluation sets, and what this provider needs beside it."""
        if task.image is None or plan.environment.setup.image != task.image:
            return None
        return Wishes(
            setup=EnvironmentSetup(workdir=_folder(request), build_timeout_seconds=_OPENING_SECONDS),
            resources=self.resources(),
            params=self.params_of_provider(),
            run_env_variables=_VARIABLES,
        )

    def resources(self) -> ResourceRequirements:
        """None by default: limits only where sandboxes are small without any."""
        return ResourceRequirements()

    def params_of_provider(self) -> dict[str, JsonValue]:
        """None by default."""
        return {}


class SweBenchDocker(OfficialImage):
    """For the environment ``docker``."""

    id = "swebench_verified_docker"
    description = "SWE-bench on docker: the official images, for x86-64, as root"
    environment = "docker"

    def params_of_provider(self) -> dict[str, JsonValue]:
        """Platform and user."""
        return {"platform": _PLATFORM, "user": _USER}


class SweBenchDaytona(OfficialImage):
    """For the environment ``daytona``."""

    id = "swebench_verified_daytona"
    description = "SWE-bench on daytona: the official images, with resources and time for them"
    environment = "daytona"

    def resources(self) -> ResourceRequirements:
        """A default sandbox has one core, one GiB and a disk of three."""
        return _REMOTE.model_copy(update={"storage_mb": _DISK_MB})

    def params_of_provider(self) -> dict[str, JsonValue]:
        """User and patience."""
        return {"user": _USER, "open_timeout_seconds": _OPENING_SECONDS}


class SweBenchModal(OfficialImage):
    """For the environment ``modal``."""

    id = "swebench_verified_modal"
    description = "SWE-bench on modal: the official images, with resources and time for them"
    environment = "modal"

    def resources(self) -> ResourceRequirements:
        """A default sandbox is promised an eighth of a core; disks are not counted."""
        return _REMOTE

    def params_of_provider(self) -> dict[str, JsonValue]:
        """Patience; commands are root's anyway."""
        return {"open_timeout_seconds": _OPENING_SECONDS}


def _folder(request: RunRequest) -> str:
    """Where the repository is; commands start there, as in the official evaluation."""
    folder = request.benchmark.params.get("folder")
    return folder if isinstance(folder, str) and folder.startswith("/") else _FOLDER
