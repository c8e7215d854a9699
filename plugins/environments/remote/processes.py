"""Detached processes: started once under an id, followed and ended from any process. Everything blocks."""

from __future__ import annotations

from dataclasses import dataclass

from ....contracts.environment import ProcessStatus
from ..shared.naming import file_name
from .commands import CommandLine
from .limits import RemoteLimits
from .shell import PROCESSES, Answer, RemoteShellError, Shell

_STREAMS = {"stdout": "out", "stderr": "err"}
_BLOCK = 64 * 1024
_ENDING_SECONDS = 30.0


@dataclass(frozen=True)
class DetachedProcess:
    """One detached process and its folder inside."""

    shell: Shell
    process_id: str

    @property
    def mark(self) -> str:
        """Its name in there."""
        return f"p-{file_name(self.process_id)}"

    @property
    def folder(self) -> str:
        """Where its record, status and output are."""
        return f"{PROCESSES}/{self.mark}/"

    def start(self, line: CommandLine, limits: RemoteLimits) -> ProcessStatus:
        """Start it unless somebody has. Making its folder decides who did, so that one of many wins."""
        variables = line.environment("detach", limits)
        answer = self.shell.ask("start", self.folder, self.mark, variables=variables, script="run")
        status = self._status(answer)
        if status is None:
            raise RemoteShellError(f"process {self.process_id!r} left no record")
        return status

    def status(self) -> ProcessStatus | None:
        """Running, ended with a status, or vanished without one; ``None`` when never started."""
        return self._status(self.shell.ask("state", self.folder))

    def read(self, stream: str, offset: int, max_bytes: int) -> bytes:
        """Output from ``offset``. Raises ``ValueError``; ``ProcessLookupError`` when never started."""
        if stream not in _STREAMS:
            raise ValueError(f"{stream!r} is not one of {', '.join(_STREAMS)}")
        if offset < 0 or max_bytes < 1:
            raise ValueError(f"cannot read {max_bytes} bytes from {offset}")
        skipped = offset // _BLOCK
        count = (offset % _BLOCK + max_bytes + _BLOCK - 1) // _BLOCK
        answer = self.shell.ask("slice", self.folder, _STREAMS[stream], str(_BLOCK), str(skipped), str(count))
        if answer.words == ["none"]:
            raise ProcessLookupError(f"no process {self.process_id!r} was started in this environment")
        begin = offset - skipped * _BLOCK
        return answer.rest[begin : begin + max_bytes]

    def end(self, grace_seconds: float) -> None:
        """End it and all it started; the supervisor has time to write the status."""
        if self.status() is None:
            return
        tenths = str(round(grace_seconds * 10))
        seconds = grace_seconds + _ENDING_SECONDS
        self.shell.ask("stop", self.folder, self.mark, tenths, script="end", seconds=seconds)

    def _status(self, answer: Answer) -> ProcessStatus | None:
        if answer.words == ["none"]:
            return None
        if len(answer.words) != 9 or answer.words[0] != "state":
            raise RemoteShellError(f"the sandbox says {' '.join(answer.words)[:200]!r} of a process")
        ended = answer.words[2] != "-"
        numbers = [0 if word == "-" else word for word in (*answer.words[1:7], answer.words[8])]
        runs, code, exceeded, killed, out, err, began = Answer(["", *map(str, numbers)], b"").numbers()
        return ProcessStatus(
            process_id=self.process_id,
            running=bool(runs),
            returncode=code if ended else None,
            output_limit_exceeded=bool(exceeded),
            oom_killed=bool(killed),
            started_at=float(began) if began else None,
            stdout_bytes=out,
            stderr_bytes=err,
        )
