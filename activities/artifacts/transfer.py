"""One artifact on its way from a sandbox into the artifact directory."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import shutil
import tempfile
from collections.abc import AsyncGenerator, Callable
from pathlib import Path, PurePosixPath

from ...contracts.artifacts import (
    ArtifactEntry,
    ArtifactSpec,
    ArtifactStatus,
    RefusedMember,
)
from ...contracts.environment import EnvironmentSession
from ...plugins.archives.archive_reader import ArchiveReader
from ...plugins.environments.shared.cancellation import finish
from .extraction import TOP, Extracted, Extraction
from .meter import TransferMeter
from .tar_stream import stream_archive

Progress = Callable[[str, int], None]
"""Told the source and the bytes of its archive that have arrived."""


class SourceMissingError(Exception):
    """There is nothing at the source."""


class SourceOutsideError(Exception):
    """The source leads out of the sandbox."""


class Transfer:
    """Brings artifacts below ``target``. What is unfinished lies in ``incoming`` under a name of its own."""

    def __init__(
        self,
        session: EnvironmentSession,
        target: Path,
        incoming: Path,
        meter: TransferMeter,
        progress: Progress,
    ) -> None:
        self._session = session
        self._target = target
        self._incoming = incoming
        self._meter = meter
        self._progress = progress

    async def collect(self, spec: ArtifactSpec) -> ArtifactEntry:
        """The manifest's entry for ``spec``, whose content is then complete at its destination.

        Raises ``OSError``, ``BrokenArchiveError`` and ``LimitExceededError``; nothing is at the
        destination then, and nothing that this started runs any more. So, too, when cancelled.
        """
        entry = ArtifactEntry(source=spec.source, destination=spec.destination, exclude=spec.exclude)
        source = spec.source_in(self._session.workdir)
        self._incoming.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(dir=self._incoming))
        try:
            extracted = await self._receive(spec, source, staging)
            return await asyncio.to_thread(self._settle, entry, extracted, staging)
        except SourceMissingError:
            return entry.model_copy(
                update={"status": ArtifactStatus.MISSING, "reason": "there is nothing at the source"}
            )
        except SourceOutsideError as error:
            # The agent has replaced a folder above the source by a link to elsewhere.
            refused = RefusedMember(path=".", reason=str(error))
            return _refused(entry, Extracted(refused=[refused], refused_count=1))
        finally:
            await asyncio.to_thread(remove_tree, staging)

    async def _receive(self, spec: ArtifactSpec, source: str, staging: Path) -> Extracted:
        self._meter.begin_archive()
        chunks = stream_archive(self._session, source, spec.exclude, self._meter.limits.max_bytes)
        stream = _ThreadStream(chunks, self._meter, lambda count: self._progress(spec.source, count))
        extraction = Extraction(staging, PurePosixPath(source).name, spec.exclude, self._meter)
        work = asyncio.ensure_future(asyncio.to_thread(extraction.run, ArchiveReader(stream.read)))
        try:
            return await asyncio.shield(work)
        finally:
            await finish(stream.close(work))

    def _settle(self, entry: ArtifactEntry, extracted: Extracted, staging: Path) -> ArtifactEntry:
        content = extracted.content
        if content is None:
            if extracted.refused_count:
                return _refused(entry, extracted)
            return entry.model_copy(
                update={"status": ArtifactStatus.EXCLUDED, "reason": "all of it matches 'exclude'"}
            )
        destination = self._target / entry.destination
        destination.parent.mkdir(parents=True, exist_ok=True)
        remove_tree(destination)  # of an earlier try that was cut off
        os.replace(staging / TOP, destination)
        update = {
            "status": ArtifactStatus.COLLECTED,
            "kind": content.kind,
            "sha256": content.sha256,
            "size_bytes": content.size_bytes,
            "file_count": content.file_count,
            "refused": extracted.refused,
            "refused_count": extracted.refused_count,
        }
        return entry.model_copy(update=update)


def _refused(entry: ArtifactEntry, extracted: Extracted) -> ArtifactEntry:
    """Nothing that may be collected stands at the source: to everybody else it is missing."""
    return entry.model_copy(
        update={
            "status": ArtifactStatus.MISSING,
            "reason": f"what is there was refused: {extracted.refused[0].reason}",
            "refused": extracted.refused,
            "refused_count": extracted.refused_count,
        }
    )


def remove_tree(path: Path) -> None:
    """Remove a file or tree; nothing happens when it is not there. Links are not followed."""
    try:
        shutil.rmtree(path)
    except NotADirectoryError:
        path.unlink(missing_ok=True)
    except FileNotFoundError:
        pass
    except OSError:
        # Python refuses a symbolic link here; a tree that cannot be removed fails again, by name.
        if not path.is_symlink():
            raise
        path.unlink()


class _ThreadStream:
    """Reads an asynchronous stream from a thread; every byte passes the meter."""

    def __init__(
        self, chunks: AsyncGenerator[bytes, None], meter: TransferMeter, arrived: Callable[[int], None]
    ) -> None:
        self._chunks = chunks
        self._meter = meter
        self._arrived = arrived
        self._loop = asyncio.get_running_loop()
        self._rest = memoryview(b"")
        self._asked: concurrent.futures.Future[bytes] | None = None
        self._answering: asyncio.Task[bytes] | None = None
        self._closed = False

    def read(self, size: int) -> bytes:
        """At most ``size`` bytes, none at the end; for the thread. Raises what the stream raises."""
        while not self._rest:
            self._asked = asyncio.run_coroutine_threadsafe(self._next(), self._loop)
            data = self._asked.result()
            if not data:
                return b""
            self._meter.received(len(data))
            self._rest = memoryview(data)
        taken, self._rest = self._rest[:size], self._rest[size:]
        return bytes(taken)

    async def close(self, reader: asyncio.Future[Extracted]) -> None:
        """End the stream and wait for the thread that reads it, so that it writes nothing later.

        A thread cannot be cancelled: its read fails instead.
        """
        self._closed = True
        if self._asked is not None:
            self._asked.cancel()
        await asyncio.wait({reader})
        if self._answering is not None:
            await asyncio.wait({self._answering})
        await self._chunks.aclose()

    async def _next(self) -> bytes:
        if self._closed:
            raise asyncio.CancelledError
        self._answering = asyncio.current_task()
        try:
            data = b""
            while not data:  # an empty piece is not the end
                data = await anext(self._chunks)
        except StopAsyncIteration:
            return b""
        except FileNotFoundError as error:
            raise SourceMissingError(str(error)) from error
        except PermissionError as error:
            raise SourceOutsideError(str(error)) from error
        self._arrived(self._meter.archive_bytes + len(data))
        return data
