"""Sandboxes as Modal tells of them, and what they carry of ours.

Modal does not say which tags it takes. Those of its apps hold letters, digits, dashes, periods and underscores, 63
at most; so do ours: any other value is written in base64, and a long one over several tags.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ....contracts.environment import EnvironmentHandle, EnvironmentRecord, OpenRequest
from ....contracts.environment_labels import KEPT
from ..shared.naming import file_name

if TYPE_CHECKING:
    import modal

PROVIDER = "modal"
_ID, _WORKDIR, _CREATED, _LABEL = (
    "agentcompass.environment",
    "agentcompass.workdir",
    "agentcompass.created",
    "agentcompass.label.",
)
_PLAIN = re.compile(r"[A-Za-z0-9.-][A-Za-z0-9._-]{0,62}")
_ENCODED = "_"
"""Begins a value in base64."""
_LONGEST = 63
_LONGEST_NAME = 64 - len("ac-")


@dataclass(frozen=True)
class Facts:
    """What matters of a sandbox."""

    sandbox: modal.Sandbox
    values: dict[str, str]
    """Its tags, decoded."""

    @classmethod
    def of(cls, sandbox: modal.Sandbox, tags: Mapping[str, str]) -> Facts:
        """From an answer of Modal."""
        return cls(sandbox, decoded(tags))

    @property
    def sandbox_id(self) -> str:
        """Modal's id: a sandbox that was made anew under the same name is another one."""
        return str(self.sandbox.object_id)

    @property
    def environment_id(self) -> str:
        """Ours; empty for a sandbox of somebody else."""
        return self.values.get(_ID, "")

    @property
    def workdir(self) -> str:
        """The work directory that was asked for."""
        return self.values.get(_WORKDIR, "")

    def handle(self) -> EnvironmentHandle:
        """The handle that finds it again."""
        return EnvironmentHandle(provider=PROVIDER, id=self.environment_id, data={"sandbox": self.sandbox_id})

    def record(self) -> EnvironmentRecord:
        """As an environment of a listing."""
        labels = {
            name.removeprefix(_LABEL): value for name, value in self.values.items() if name.startswith(_LABEL)
        }
        created = self.values.get(_CREATED, "")
        created_at = float(created) if created.isdigit() else None
        return EnvironmentRecord(handle=self.handle(), labels=labels, created_at=created_at)


def sandbox_name(environment_id: str) -> str:
    """The deterministic name of a sandbox: names are unique in an app. At most 64 characters."""
    name = file_name(environment_id)
    if name.startswith("ac-"):
        return name
    if len(name) > _LONGEST_NAME:
        name = f"{name[: _LONGEST_NAME - 13]}-{hashlib.sha256(name.encode()).hexdigest()[:12]}"
    return f"ac-{name}"


def tags_of(request: OpenRequest) -> dict[str, str]:
    """The tags of the sandbox of ``request``."""
    values = {_ID: request.environment_id, _CREATED: str(int(time.time()))}
    if request.spec.setup.workdir:
        values[_WORKDIR] = request.spec.setup.workdir
    return encoded(values | {f"{_LABEL}{name}": value for name, value in request.labels.items()})


def tags_of_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """The tags of every sandbox that carries ``labels``."""
    return encoded({f"{_LABEL}{name}": value for name, value in labels.items()})


def is_kept(request: OpenRequest) -> bool:
    """Whether the sandbox is to outlive its attempt."""
    return request.labels.get("keep") == KEPT


def encoded(values: Mapping[str, str]) -> dict[str, str]:
    """Values as tags; a value that takes several has ``.1``, ``.2`` and so on behind its name."""
    tags = {}
    for name, value in values.items():
        if _PLAIN.fullmatch(value):
            tags[name] = value
            continue
        data = base64.urlsafe_b64encode(value.encode("utf-8", "surrogatepass")).decode("ascii")
        text = _ENCODED + data.rstrip("=")
        for number, start in enumerate(range(0, len(text), _LONGEST)):
            tags[f"{name}.{number}" if number else name] = text[start : start + _LONGEST]
    return tags


def decoded(tags: Mapping[str, str]) -> dict[str, str]:
    """The inverse of ``encoded``; what is none of ours is left as it is."""
    values = {}
    for name, first in tags.items():
        stem, _, number = name.rpartition(".")
        if number.isdigit() and tags.get(stem, "").startswith(_ENCODED):
            continue
        if not first.startswith(_ENCODED):
            values[name] = first
            continue
        text, following = first[1:], 1
        while (part := tags.get(f"{name}.{following}")) is not None:
            text, following = text + part, following + 1
        try:
            data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
            values[name] = data.decode("utf-8", "surrogatepass")
        except (binascii.Error, ValueError):
            values[name] = first
    return values
