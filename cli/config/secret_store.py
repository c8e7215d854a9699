"""Where a secret goes that was written out instead of referred to."""

from __future__ import annotations

import functools
import os
import secrets
from collections.abc import Callable
from pathlib import Path

from ...activities.encryption import KEY_VARIABLE, payload_keys, seal_secret
from ...contracts.errors import ConfigurationError

StoreLiteral = Callable[[str], str]
"""Takes a secret and returns a reference to it; raises ``ConfigurationError`` where that is impossible."""

UNSTORED = "file:/(kept when the run starts)"
"""The reference that stands in where nothing is started, so nothing is written."""


class HomeSecretStore:
    """Keeps secrets below an AgentCompass home, one file a secret, readable by its owner only."""

    def __init__(self, home: Path) -> None:
        self.folder = home.absolute() / "secrets"
        self._written: list[Path] = []
        self._references: dict[str, str] = {}

    def __call__(self, value: str) -> str:
        """Write ``value`` to a new file of mode 0600 and return its ``file:`` reference.

        The requests of a launch that were given the same key have the same account, so they get the same reference.

        Raises:
            ConfigurationError: the folder cannot be made or written.
        """
        if value in self._references:
            return self._references[value]
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            # An existing folder keeps its mode when mkdir finds it.
            self.folder.chmod(0o700)
            file = self.folder / secrets.token_hex(16)
            descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            self._written.append(file)
            with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
                stream.write(value)
        except OSError as error:
            raise ConfigurationError(
                f"the key cannot be kept in {self.folder}: {error.strerror or error}; "
                "give it as ${VAR} or set AGENTCOMPASS_HOME to a writable folder"
            ) from None
        self._references[value] = f"file:{file}"
        return self._references[value]

    def discard(self) -> None:
        """Remove what this object has written; its references are of no use from then on."""
        self._references.clear()
        for file in self._written:
            file.unlink(missing_ok=True)


def refuse_literal(value: str) -> str:
    """For a cluster: its workers cannot read a file of this machine."""
    del value
    raise ConfigurationError(
        "a secret cannot be given literally to a Temporal cluster, because it would be recorded there; "
        "set it as an environment variable of the workers and write env:NAME here, "
        "or mount a file into them and write file:/path; "
        f"or set a payload encryption key ({KEY_VARIABLE}) here and for the workers"
    )


def refuse_literal_of_schedule(value: str) -> str:
    """For a schedule, which outlives every file that a launch removes with its keys."""
    del value
    raise ConfigurationError(
        "a secret cannot be given literally to a schedule, because it would have to be kept for as long as that "
        "exists; set it as an environment variable of the worker and write ${NAME} or env:NAME here, or keep it "
        "in a file and write file:/path"
    )


def cluster_store() -> StoreLiteral:
    """For a cluster: a secret travels encrypted if there is a payload key, else not at all.

    Raises ``ConfigurationError`` for a payload key that cannot be used.
    """
    # Sealed once each: what is sealed anew looks like another account.
    return refuse_literal if payload_keys() is None else functools.cache(seal_secret)


def leave_literal(value: str) -> str:
    """For commands that start nothing: stands in for the reference without writing anything."""
    del value
    return UNSTORED
