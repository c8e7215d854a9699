"""Detached processes: started once under an id, followed and ended from any process."""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass
from typing import Any

from ....contracts.environment import ProcessStatus
from ..shared.naming import file_name
from . import scripts
from .conversation import Conversation
from .execution import CommandLine
from .files import read_file
from .params import DockerParams
from .sandbox import Sandbox

_STREAMS = {"stdout": "out", "stderr": "err"}
_BLOCK = 64 * 1024
_LONGEST_RECORD = 1000


class StartFailedError(RuntimeError):
    """A detached process did not start; the message holds what the engine or the shell said."""


@dataclass(frozen=True)
class DetachedProcess:
    """One detached process and its folder inside. Everything here blocks."""

    sandbox: Sandbox
    process_id: str

    @property
    def mark(self) -> str:
        """Its name in there."""
        return f"p-{file_name(self.process_id)}"

    @property
    def folder(self) -> str:
        """Where its record, status and output are."""
        return f"{scripts.PROCESSES}/{self.mark}/"

    def start(self, line: CommandLine, params: DockerParams) -> ProcessStatus:
        """Start it unless somebody has. Making its folder decides who did, so that one of many wins."""
        sandbox = self.sandbox
        if sandbox.files.status(f"{self.folder}leader") is None:
            variables = line.environment("run", "detach", self.mark, params)
            arguments = scripts.invocation("run", self.mark)
            exec_id = sandbox.create_exec(arguments, variables, line.user, stdin=False)
            conversation = Conversation(sandbox, exec_id)
            conversation.begin()
            try:
                answer = conversation.read_line()
            finally:
                conversation.hang_up()
            if answer not in ("started", "there"):
                said = answer or bytes(conversation.complaints).decode("utf-8", "replace").strip()
                sandbox.require_alive()
                raise StartFailedError(
                    f"process {self.process_id!r} was not started: {said or 'no reason given'}"
                )
        status = self.status()
        if status is None:
            raise StartFailedError(f"process {self.process_id!r} left no record")
        return status

    def status(self) -> ProcessStatus | None:
        """Running, ended with a status, or vanished without one; ``None`` when never started.

        Asks the engine only, some 15 ms, unless it has just ended.
        """
        facts = self.sandbox.require_alive()
        files = self.sandbox.files
        leader = files.status(f"{self.folder}leader")
        if leader is None:
            return None
        # Looked at before its status: a supervisor that is gone by now has written all it ever will.
        supervised = self._supervised(facts["ExecIDs"] or [])
        ended = self._ended()
        if ended is None and not supervised:
            # The engine forgets commands when it is restarted without its containers.
            supervised = self.sandbox.script("alive", self.folder)[0] == 0
            ended = self._ended()
        out, err = (files.status(f"{self.folder}{name}") for name in ("out", "err"))
        return ProcessStatus(
            process_id=self.process_id,
            running=ended is None and supervised,
            returncode=ended[0] if ended else None,
            output_limit_exceeded=bool(ended and ended[1]),
            oom_killed=bool(ended and ended[2]),
            started_at=_seconds(leader.modified),
            stdout_bytes=out.size if out else 0,
            stderr_bytes=err.size if err else 0,
        )

    def read(self, stream: str, offset: int, max_bytes: int) -> bytes:
        """Output from ``offset``. Raises ``ValueError``; ``ProcessLookupError`` when never started."""
        if stream not in _STREAMS:
            raise ValueError(f"{stream!r} is not one of {', '.join(_STREAMS)}")
        if offset < 0 or max_bytes < 1:
            raise ValueError(f"cannot read {max_bytes} bytes from {offset}")
        path = f"{self.folder}{_STREAMS[stream]}"
        found = self.sandbox.files.status(path)
        if found is None:
            self.sandbox.require_alive()
            if self.sandbox.files.status(f"{self.folder}leader") is None:
                raise ProcessLookupError(f"no process {self.process_id!r} was started in this environment")
            return b""  # recorded, but its output is not open yet
        if found.size <= offset:
            return b""
        skipped = offset // _BLOCK
        count = (offset % _BLOCK + max_bytes + _BLOCK - 1) // _BLOCK
        code, data = self.sandbox.script("read", path, str(_BLOCK), str(skipped), str(count))
        if code:
            raise OSError(f"{stream} of process {self.process_id!r} cannot be read: {data[-300:]!r}")
        begin = offset - skipped * _BLOCK
        return data[begin : begin + max_bytes]

    def end(self, grace_seconds: float) -> None:
        """End it and all it started; the supervisor has time to write the status."""
        self.sandbox.require_alive()
        record = self._content("leader")
        if record is None:
            return
        words = record.split()
        user = words[2] if len(words) == 3 and re.fullmatch(r"[\w.-]+(:[\w.-]+)?", words[2]) else "0"
        code, text = self.sandbox.script(
            "end", self.folder, self.mark, str(round(grace_seconds * 10)), user=user
        )
        if code:
            said = text.decode("utf-8", "replace").strip()[-300:] or "something survives SIGKILL"
            raise OSError(f"process {self.process_id!r} cannot be ended: {said}")

    def _supervised(self, exec_ids: list[str]) -> bool:
        """Whether the engine knows a running command that looks after this process."""
        api = self.sandbox.engine.api
        for exec_id in exec_ids:
            found: dict[str, Any] = self.sandbox.engine.translated(api.exec_inspect, exec_id)
            arguments = found["ProcessConfig"].get("arguments") or []
            if found["Running"] and arguments[-1:] == [self.mark]:
                return True
        return False

    def _ended(self) -> tuple[int, bool, bool] | None:
        """Status, output limit, lack of memory; ``None`` before the end."""
        text = self._content("status")
        if text is None:
            return None
        words = text.split()
        if len(words) != 3 or not all(re.fullmatch(r"\d{1,3}", word) for word in words):
            return 1, False, False  # somebody inside has written to it
        return int(words[0]), words[1] == "1", words[2] == "1"

    def _content(self, name: str) -> str | None:
        """A small file of the folder; empty for one that somebody inside has spoiled."""
        try:
            return read_file(self.sandbox.files, f"{self.folder}{name}", _LONGEST_RECORD).decode(
                "ascii", "replace"
            )
        except FileNotFoundError:
            return None
        except (ValueError, OSError):
            return ""


def _seconds(text: str) -> float | None:
    """Unix seconds of the engine's time format, which has nanoseconds."""
    found = re.match(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d{1,6})?\d*(Z|[+-]\d\d:\d\d)$", text)
    if not found:
        return None
    zone = "+00:00" if found[3] == "Z" else found[3]
    return datetime.datetime.fromisoformat(f"{found[1]}{zone}").timestamp() + float(found[2] or 0)
