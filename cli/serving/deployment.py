"""Worker deployment versioning: which version of the code a worker process is."""

from __future__ import annotations

from dataclasses import dataclass

from temporalio.common import VersioningBehavior, WorkerDeploymentVersion
from temporalio.worker import WorkerDeploymentConfig

from ... import __version__
from ...contracts.errors import UsageError

UNVERSIONED_BUILD_ID = f"agentcompass-{__version__}"
"""Shown in the UI. Without one the SDK hashes the code of every loaded module: a second of CPU time."""


@dataclass(frozen=True)
class DeploymentVersion:
    """A deployment is a fleet; a build is a state of its code, extensions included."""

    deployment_name: str
    build_id: str

    @property
    def config(self) -> WorkerDeploymentConfig:
        """For the SDK. A workflow that stays with the version that began it says so at its class."""
        return WorkerDeploymentConfig(
            version=WorkerDeploymentVersion(deployment_name=self.deployment_name, build_id=self.build_id),
            use_worker_versioning=True,
            default_versioning_behavior=VersioningBehavior.AUTO_UPGRADE,
        )


def parse_version(deployment_name: str, build_id: str) -> DeploymentVersion | None:
    """``None`` without either. Raises ``UsageError`` for one without the other, or a name with a dot.

    Temporal writes a version as ``name.build``.
    """
    if not deployment_name and not build_id:
        return None
    if not deployment_name or not build_id:
        raise UsageError("--deployment-name and --build-id go together")
    if "." in deployment_name:
        raise UsageError(f"--deployment-name: {deployment_name!r} has a dot, which Temporal does not allow")
    return DeploymentVersion(deployment_name, build_id)
