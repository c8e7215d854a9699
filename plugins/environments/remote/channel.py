"""What a provider has to offer so that a session can be had on its sandboxes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import BinaryIO, Protocol


class Channel(Protocol):
    """The calls to one sandbox. All but ``environment_id`` block, and may be called from any thread.

    Each is repeated by the implementation while the provider does not answer or has too much to do; every one
    may be repeated. Raises ``EnvironmentLostError`` when the sandbox is gone, ``ServiceUnreachableError``,
    ``OSError``.
    """

    @property
    def environment_id(self) -> str:
        """Whose sandbox it is, for messages."""

    def execute(self, command: str, variables: Mapping[str, str], seconds: float) -> tuple[int, str]:
        """Run a line of POSIX shell with variables; its status and output. Ended after ``seconds``."""

    def send(self, path: str, content: BinaryIO) -> None:
        """Make a file of ``content``, which is read from its beginning."""

    def receive(self, path: str) -> AbstractContextManager[Iterator[bytes]]:
        """The bytes of a file, while they come."""

    def endpoint(self, port: int) -> str | None:
        """A URL for a port, if there is one."""
