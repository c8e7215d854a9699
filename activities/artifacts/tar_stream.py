"""An archive of a path in a sandbox, by what the provider has, else by the sandbox's own ``tar``."""

from __future__ import annotations

import asyncio
import shlex
import uuid
from collections.abc import AsyncGenerator, Sequence
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

from ...contracts.environment import EnvironmentSession

_NOTHING_THERE = 44
_PIECE = 1024 * 1024
_WILDCARDS = set("*?[]\\")
_POLL_SECONDS, _LONGEST_POLL_SECONDS = 0.02, 0.5


def stream_archive(
    session: EnvironmentSession, source: str, exclude: Sequence[str], max_bytes: int
) -> AsyncGenerator[bytes, None]:
    """See :meth:`EnvironmentSession.stream_archive`; ``tar`` stops after ``max_bytes``."""
    try:
        return session.stream_archive(source, exclude=exclude)
    except NotImplementedError:
        return tar_stream(session, source, exclude, max_bytes)


async def tar_stream(
    session: EnvironmentSession, source: str, exclude: Sequence[str], max_bytes: int
) -> AsyncGenerator[bytes, None]:
    """Run ``tar`` as a detached process and hand on what it writes, while it writes.

    However this ends, the process is gone afterwards. Raises ``FileNotFoundError`` and ``OSError``.
    """
    process_id = f"artifacts-{uuid.uuid4().hex[:16]}"
    # Streams are read by offset, so a lost connection costs nothing; nothing is kept in memory.
    try:
        await session.start_process(process_id, ["sh", "-c", _script(source, exclude, max_bytes)])
        offset, pause = 0, _POLL_SECONDS
        while True:
            status = await session.process_status(process_id)
            data = await session.read_process_output(process_id, "stdout", offset, _PIECE)
            if data:
                offset += len(data)
                pause = _POLL_SECONDS
                yield data
            elif status is None or not status.running:
                break
            else:
                await asyncio.sleep(pause)
                pause = min(pause * 2, _LONGEST_POLL_SECONDS)
        await _require_success(session, process_id, source, None if status is None else status.returncode)
    finally:
        await session.end_process(process_id, grace_seconds=0)


async def _require_success(
    session: EnvironmentSession, process_id: str, source: str, returncode: int | None
) -> None:
    if returncode == 0:
        return
    if returncode == _NOTHING_THERE:
        raise FileNotFoundError(f"{source} does not exist in the environment")
    errors = await session.read_process_output(process_id, "stderr", 0, 4096)
    raise OSError(
        f"tar of {source} ended with status {returncode}: {errors.decode('utf-8', 'replace').strip()}"
    )


def _script(source: str, exclude: Sequence[str], max_bytes: int) -> str:
    path = PurePosixPath(source)
    parent, name = shlex.quote(str(path.parent)), shlex.quote(f"./{path.name}")
    return (
        f"cd {parent} 2>/dev/null || exit {_NOTHING_THERE}\n"
        f"[ -e {name} ] || [ -L {name} ] || exit {_NOTHING_THERE}\n"
        f"set --\n{_gnu_excludes(path.name, exclude)}"
        # A pipe ends with the status of its last command, so that of tar goes its own way. One byte
        # more than allowed is let through, so that the reader sees that it was too much.
        "exec 4>&1\n"
        f'status=$({{ {{ tar -cf - "$@" {name} 3>&- 4>&-; echo $? >&3; }} | head -c {max_bytes + 1} >&4; }} 3>&1)\n'
        "exit $status"
    )


def _gnu_excludes(name: str, exclude: Sequence[str]) -> str:
    """Options that save sending what the reader drops anyway, as far as GNU tar means the same."""
    options: list[str] = []
    for pattern in exclude:
        parts = [part for part in pattern.split("/") if part not in ("", ".")]
        if "\\" in pattern or _WILDCARDS & set(name):
            continue
        if len(parts) == 1 and not fnmatchcase(name, pattern):
            options += ["--no-anchored", f"--exclude={parts[0]}"]
        elif len(parts) > 1 and "**" not in parts[:-1]:
            options += ["--anchored", f"--exclude=./{name}/{'/'.join(parts)}"]
    if not options:
        return ""
    options = ["--wildcards", "--no-wildcards-match-slash", *options]
    return f"tar --version 2>/dev/null | grep -q GNU && set -- {shlex.join(options)}\n"
