"""The private directory of one environment: its parts, its ledger, its removal."""

from __future__ import annotations

import os
import stat
import time
import uuid
from pathlib import Path
from typing import Any, Literal

import orjson
from pydantic import Field, TypeAdapter

from ....contracts.base import Contract
from ....contracts.environment import EnvironmentHandle
from ..shared.naming import file_name
from .removal import remove_tree

PROVIDER = "host_process"
_VARIABLES: TypeAdapter[dict[str, str]] = TypeAdapter(dict[str, str])


class Ledger(Contract):
    """``ledger.json``: whose environment it is; written before anything else is made."""

    schema_version: Literal["agentcompass.host_environment.v1"] = "agentcompass.host_environment.v1"
    environment_id: str
    labels: dict[str, str] = Field(default_factory=dict)
    created_at: float

    @classmethod
    def read(cls, path: Path) -> Ledger | None:
        """The ledger at ``path``, ``None`` when there is none. Raises ``ValidationError``."""
        try:
            return cls.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            return None


class EnvironmentDirectory:
    """``<root>/<environment id>/`` with ``work/``, ``tmp/``, ``home/`` and ``proc/``."""

    def __init__(self, root: Path, environment_id: str) -> None:
        self.root = root
        self.environment_id = environment_id
        self.path = root / file_name(environment_id)
        self.work = self.path / "work"
        self.tmp = self.path / "tmp"
        self.home = self.path / "home"
        self.proc = self.path / "proc"
        self._ledger = self.path / "ledger.json"
        self._variables = self.path / "variables.json"
        self._lease = self.path / "lease.json"
        self._closing = self.path / "closing"
        self._untouched = self.proc / "untouched"

    @classmethod
    def of(cls, root: Path, handle: EnvironmentHandle) -> EnvironmentDirectory:
        """The directory of ``handle``, which may come from a record that somebody has changed.

        Raises ``ValueError`` when it names anything but the place that its id has below ``root``.
        """
        if handle.provider != PROVIDER:
            raise ValueError(f"a handle of {handle.provider!r} was given to {PROVIDER}")
        directory = cls(root, handle.id)
        if handle.data.get("directory", str(directory.path)) != str(directory.path):
            raise ValueError(
                f"{handle.data['directory']!r} is not the directory of environment {handle.id!r} below {root}"
            )
        if directory.path.is_symlink():
            raise ValueError(f"{directory.path} is a symbolic link, not an environment")
        return directory

    @property
    def handle(self) -> EnvironmentHandle:
        """What finds this directory again."""
        return EnvironmentHandle(
            provider=PROVIDER, id=self.environment_id, data={"directory": str(self.path)}
        )

    @property
    def alive(self) -> bool:
        """True from the end of ``create`` to the start of ``remove``."""
        return self.proc.is_dir() and self._ledger.exists() and not self._closing.exists()

    @property
    def half_removed(self) -> bool:
        """True when a removal was begun and its worker died."""
        return self._closing.exists()

    @property
    def untouched(self) -> bool:
        """True when nothing was ever started here, so that there is no process to look for.

        It takes a mark to say so: when a command has emptied ``proc/``, processes are looked for.
        """
        return self._untouched.exists()

    def touch(self) -> None:
        """Say that something is about to be started; before it is."""
        self._untouched.unlink(missing_ok=True)

    def create(self, labels: dict[str, str], variables: dict[str, str]) -> None:
        """Make what is missing; the ledger first, so that a crash leaves nothing unlabelled.

        Raises ``ValueError`` when the place belongs to another environment id.
        """
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path.mkdir(mode=0o700, exist_ok=True)
        earlier = Ledger.read(self._ledger)
        if earlier is not None and earlier.environment_id != self.environment_id:
            raise ValueError(f"{self.path} belongs to environment {earlier.environment_id!r}")
        ledger = Ledger(
            environment_id=self.environment_id,
            labels=labels,
            created_at=earlier.created_at if earlier else time.time(),
        )
        _write(self._ledger, ledger.model_dump(mode="json"))
        # A session that is taken up again elsewhere needs them, and the handle must not hold them.
        _write(self._variables, variables)
        for part in (self.work, self.tmp, self.home, self.proc):
            part.mkdir(mode=0o700, exist_ok=True)
        if earlier is None:  # whoever made it before may have started something, too
            self._untouched.touch()

    def renew(self, expires_at: float) -> None:
        """Write down until when nobody may take it for left behind. Raises ``FileNotFoundError``."""
        _write(self._lease, expires_at)

    def expires_at(self) -> float | None:
        """What was written down last; ``None`` when nothing was, or nothing that can be read."""
        try:
            return float(orjson.loads(self._lease.read_bytes()))
        except (FileNotFoundError, ValueError, TypeError):
            return None

    def variables(self) -> dict[str, str]:
        """The environment's own variables, as resolved when it was opened."""
        return _VARIABLES.validate_json(self._variables.read_bytes())

    def remove(self) -> None:
        """Remove everything; the ledger goes last, so that a removal cut short is found and repeated."""
        try:
            self._closing.touch()
        except FileNotFoundError:
            return
        kept = {self._ledger, self._closing}
        for entry in list(self.path.iterdir()):
            if entry not in kept:
                remove_tree(entry)
        self._ledger.unlink(missing_ok=True)
        self._closing.unlink(missing_ok=True)
        remove_tree(self.path)

    def resolve(self, path: str, *, follow: bool = True) -> Path:
        """The real path behind ``path``, which is absolute or below the work directory.

        Links in the environment may point anywhere inside it. Raises ``PermissionError`` for one
        that leads out, and for a relative path that climbs out. ``follow`` False leaves the last
        component as it is.
        """
        asked = Path(os.path.abspath(self.work / path))
        real = Path(os.path.realpath(asked) if follow else os.path.realpath(asked.parent)) / (
            "" if follow else asked.name
        )
        ours = asked.is_relative_to(self.path)
        if (ours or not os.path.isabs(path)) and not real.is_relative_to(self.path):
            raise PermissionError(f"{path!r} leads out of the environment")
        return real


def _write(path: Path, value: Any) -> None:
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, stat.S_IRUSR | stat.S_IWUSR)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(orjson.dumps(value))
    os.replace(temporary, path)
