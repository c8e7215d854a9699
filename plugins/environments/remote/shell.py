"""Saying words of ``remote.sh`` to a sandbox, and understanding the answers."""

from __future__ import annotations

import base64
import binascii
import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from ..shared.own_thread import in_own_thread
from ..shared.reports import KEPT_BYTES
from ..shared.scripts import SHARED, lines_of, supervision
from .channel import Channel

HOME = "/var/tmp/.agentcompass"
"""Where records and output of commands are, inside the sandbox: whoever commands run as may write there."""
EXECUTIONS, PROCESSES = f"{HOME}/x", f"{HOME}/p"
LONGEST_VARIABLE = 90_000
"""Characters above which a value does not fit into a variable: the kernel takes no longer one."""
_TRIES = 3
_END = b"\nend"
_SPARE_SECONDS = 30.0


class RemoteShellError(OSError):
    """A word could not be carried out in the sandbox; the message says why."""


@dataclass(frozen=True)
class Answer:
    """The words of an answer's first line, and what follows it."""

    words: list[str]
    rest: bytes

    def numbers(self, start: int = 1) -> list[int]:
        """The words from ``start`` on as numbers. Raises ``RemoteShellError``."""
        try:
            return [int(word) for word in self.words[start:]]
        except ValueError:
            raise RemoteShellError(f"the sandbox answers {' '.join(self.words)[:200]!r}") from None


@dataclass(frozen=True)
class Shell:
    """The shell of one sandbox."""

    channel: Channel

    def ask(
        self,
        word: str,
        *arguments: str,
        variables: Mapping[str, str] | None = None,
        script: str | None = None,
        data: bytes = b"",
        seconds: float = 60.0,
    ) -> Answer:
        """Say a word; blocks. Raises ``RemoteShellError``, and what the channel raises.

        ``script`` names what the word starts, ``data`` is what it gets. An answer that is not whole, as
        when somebody inside has ended our shell, is asked for again.
        """
        sent = {
            **(variables or {}),
            "AC_RUN": lines_of(SHARED, "common") + lines_of(__package__, "remote"),
            "AC_HOME": HOME,
            "AC_KEPT": str(KEPT_BYTES),
            "AC_SCRIPT": supervision(script) if script else "",
            "AC_DATA": base64.b64encode(data).decode("ascii"),
            "AGENTCOMPASS_COMMAND": "keeper",
        }
        command = f"exec sh -c 'eval \"$AC_RUN\"' {shlex.join([word, *arguments])}"
        said = ""
        for _ in range(_TRIES):
            code, said = self.channel.execute(command, sent, seconds + _SPARE_SECONDS)
            payload = _decoded(said)
            if payload is not None:
                return self._understood(word, payload)
            said = f"status {code}: {said.strip()[-300:]}"
        raise RemoteShellError(
            f"environment {self.channel.environment_id!r} does not answer {word!r}, but with {said}; it needs sh and "
            "the tools of any distribution, base64 and tar among them"
        )

    async def asked(self, word: str, *arguments: str, seconds: float = 60.0) -> Answer:
        """The same in a thread of its own. A cancellation does not wait for it."""
        return await in_own_thread(lambda: self.ask(word, *arguments, seconds=seconds), f"remote-{word}")

    def _understood(self, word: str, payload: bytes) -> Answer:
        line, _, rest = payload.partition(b"\n")
        if line == b"failed":
            reason = rest.decode("utf-8", "replace").strip()[-500:]
            raise RemoteShellError(f"{word} in environment {self.channel.environment_id!r}: {reason}")
        return Answer(line.decode("utf-8", "replace").split(), rest)


def _decoded(text: str) -> bytes | None:
    """The payload of an answer, ``None`` for what is none or not whole."""
    try:
        payload = base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        return None
    return payload.removesuffix(_END) if payload.endswith(_END) else None
