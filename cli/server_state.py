"""What is kept on disk about the embedded server: its files, its locks and its state."""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from .process_identity import is_same_process

LOCK_POLL_SECONDS = 0.03


class ServerState(BaseModel):
    """The content of `state.json`; it outlives the server so that its ports stay the same."""

    model_config = ConfigDict(frozen=True)

    pid: int | None
    """Process id, or None after a clean stop."""
    start_marker: str | None
    """Which process with that id is meant (see `process_identity`)."""
    grpc_port: int
    ui_port: int
    db_path: Path
    started_at: datetime
    ready: bool = False
    """Whether the namespace was seen to be served and set up as wanted."""
    version: str = ""
    """Version of the Temporal server; empty until it is ready."""
    search_attributes: dict[str, str] = {}
    """The search attributes that were verified to be registered."""

    @property
    def address(self) -> str:
        """Where Temporal clients connect."""
        return f"127.0.0.1:{self.grpc_port}"

    @property
    def ui_address(self) -> str:
        """The URL of Temporal's web UI."""
        return f"http://127.0.0.1:{self.ui_port}"

    @property
    def is_running(self) -> bool:
        """Whether the recorded process, and not a stranger with its id, is alive."""
        return is_same_process(self.pid, self.start_marker)


@dataclass(frozen=True)
class ServerFiles:
    """The files of the embedded server below one AgentCompass home."""

    home: Path

    @property
    def folder(self) -> Path:
        """The folder that holds all the others."""
        return self.home / "server"

    @property
    def database(self) -> Path:
        """The SQLite database of Temporal."""
        return self.folder / "temporal.db"

    @property
    def state(self) -> Path:
        """`ServerState` as JSON."""
        return self.folder / "state.json"

    @property
    def log(self) -> Path:
        """Output of the server since its last start."""
        return self.folder / "server.log"

    @property
    def previous_log(self) -> Path:
        """Output of the server before its last start."""
        return self.folder / "server.previous.log"

    @property
    def change_lock(self) -> Path:
        """Held by whoever starts or stops the server."""
        return self.folder / "change.lock"

    @property
    def running_lock(self) -> Path:
        """Held by the server itself, for as long as it lives."""
        return self.folder / "running.lock"

    def prepare(self) -> None:
        """Create the folders, readable by the owner only: histories hold prompts and answers."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for folder in (self.home, self.folder):
            if folder.stat().st_mode & 0o777 != 0o700:
                folder.chmod(0o700)

    def rotate_log(self) -> None:
        """Keep one older log, so that the reason of a crash survives the restart."""
        if self.log.exists():
            self.log.replace(self.previous_log)

    def protect_database(self) -> None:
        """Take access from others: the database may come from an older or foreign set-up."""
        for file in self.database_files():
            file.chmod(0o600)

    def database_files(self) -> list[Path]:
        """The database with SQLite's write-ahead log and its index, as far as they exist."""
        names = [self.database.with_name(self.database.name + end) for end in ("", "-wal", "-shm")]
        return [file for file in names if file.exists()]

    def read_state(self) -> ServerState | None:
        """Return the recorded state, or None if there is none that can be understood.

        A damaged file is no obstacle: `running_lock` still says whether a server runs.
        """
        try:
            return ServerState.model_validate_json(self.state.read_bytes())
        except (FileNotFoundError, NotADirectoryError, ValidationError):
            return None

    def write_state(self, state: ServerState) -> None:
        """Replace the state in one step: readers hold no lock."""
        draft = self.state.with_name(f"{self.state.name}.{os.getpid()}")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(state.model_dump_json(indent=2))
            file.flush()
            os.fsync(descriptor)
        draft.replace(self.state)


@asynccontextmanager
async def exclusive_lock(path: Path, *, wait_seconds: float) -> AsyncIterator[int]:
    """Hold a file lock; the operating system releases it should its holder die.

    Yields the descriptor that carries the lock: a child process that inherits it goes on
    holding the lock after this block.

    Raises:
        TimeoutError: somebody else held the lock for all of `wait_seconds`.
    """
    loop = asyncio.get_running_loop()
    give_up_at = loop.time() + wait_seconds
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if loop.time() >= give_up_at:
                    raise TimeoutError(f"{path} is held by another process") from None
            # Polling, because a thread that blocks in flock could not be cancelled.
            await asyncio.sleep(LOCK_POLL_SECONDS)
        yield descriptor
    finally:
        os.close(descriptor)
