"""Sandboxes as Daytona tells of them, and what they carry of ours."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ....contracts.environment import EnvironmentHandle, EnvironmentRecord, OpenRequest
from ....contracts.environment_labels import KEPT
from ..shared.naming import file_name

if TYPE_CHECKING:
    from daytona_api_client import Sandbox, SandboxListItem

PROVIDER = "daytona"
ID_LABEL = "agentcompass.environment"
WORKDIR_LABEL = "agentcompass.workdir"
LABEL_PREFIX = "agentcompass.label."


@dataclass(frozen=True)
class Facts:
    """What matters of a sandbox."""

    sandbox: str
    """Daytona's id: a sandbox that was made anew under the same name is another one."""
    state: str
    labels: dict[str, str]
    toolbox: str
    """The address of the sandbox's own API."""
    error: str
    created_at: float | None

    @classmethod
    def of(cls, found: Sandbox | SandboxListItem) -> Facts:
        """From an answer of Daytona."""
        return cls(
            sandbox=found.id,
            state=found.state.value if found.state else "unknown",
            labels=dict(found.labels),
            toolbox=f"{found.toolbox_proxy_url.rstrip('/')}/{found.id}",
            error=found.error_reason or "",
            created_at=_seconds(found.created_at),
        )

    @property
    def environment_id(self) -> str:
        """Ours; empty for a sandbox of somebody else."""
        return self.labels.get(ID_LABEL, "")

    def handle(self) -> EnvironmentHandle:
        """The handle that finds it again."""
        return EnvironmentHandle(provider=PROVIDER, id=self.environment_id, data={"sandbox": self.sandbox})

    def record(self) -> EnvironmentRecord:
        """As an environment of a listing."""
        labels = {
            name.removeprefix(LABEL_PREFIX): value
            for name, value in self.labels.items()
            if name.startswith(LABEL_PREFIX)
        }
        return EnvironmentRecord(handle=self.handle(), labels=labels, created_at=self.created_at)


def sandbox_name(environment_id: str) -> str:
    """The deterministic name of a sandbox: names are unique in an organization."""
    name = file_name(environment_id)
    return name if name.startswith("ac-") else f"ac-{name}"


def labels_of(request: OpenRequest) -> dict[str, str]:
    """The labels of the sandbox of ``request``."""
    own = {ID_LABEL: request.environment_id}
    if request.spec.setup.workdir:
        own[WORKDIR_LABEL] = request.spec.setup.workdir
    return own | {f"{LABEL_PREFIX}{name}": value for name, value in request.labels.items()}


def is_kept(labels: dict[str, str]) -> bool:
    """Whether a sandbox with these labels is to outlive its attempt."""
    return labels.get(f"{LABEL_PREFIX}keep") == KEPT


def _seconds(text: str | None) -> float | None:
    try:
        return datetime.datetime.fromisoformat(text).timestamp() if text else None
    except ValueError:
        return None
