"""One container, seen from the engine: is it alive, and what do scripts in it say."""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

from ....contracts.environment import EnvironmentLostError
from ....contracts.errors import UsageError
from ..shared.packing import Owner
from . import scripts
from .archive import ContainerFiles
from .container import SandboxData
from .endings import reason_of_events, reason_of_state
from .engine import CONFLICT, NOT_FOUND, Engine, EngineError
from .frames import Line, LineDeadlineError

_SCRIPT_SECONDS = 90.0
_MOST_PRINTED = 4 * 1024**2

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True)
class Sandbox:
    """A container and how commands run in it."""

    engine: Engine
    environment_id: str
    data: SandboxData

    @property
    def container(self) -> str:
        """The engine's id of it."""
        return self.data.container

    @property
    def files(self) -> ContainerFiles:
        """Its file system."""
        return ContainerFiles(self.engine, self.container)

    @functools.cached_property
    def owner(self) -> Owner:
        """Whom files belong to that are written for the user of commands. Blocks when that is not root."""
        user = self.data.user
        if user.partition(":")[0] in ("0", "root"):
            return Owner()
        code, text = self.script("whoami", user=user)
        words = text.split()
        if code or len(words) != 2:
            raise OSError(f"user {user!r} cannot be used: {text.decode('utf-8', 'replace').strip()[-300:]}")
        return Owner(int(words[0]), int(words[1]))

    def require_alive(self) -> dict[str, Any]:
        """What the engine knows of the running container. Blocks for some 2 ms.

        Raises ``EnvironmentLostError``, with the reason.
        """
        return facts_of(self.engine, self.environment_id, self.container)

    def lost_or(self, error: EngineError) -> Exception:
        """``EnvironmentLostError`` when the container's end explains ``error``, else what it means. Blocks."""
        if error.status in (NOT_FOUND, CONFLICT, 500, 0):
            try:
                self.require_alive()
            except EnvironmentLostError as lost:
                return lost
        if "unable to find user" in str(error) or "no matching entries in passwd" in str(error):
            return UsageError(str(error))
        return OSError(f"environment {self.environment_id!r}: {error}")

    def create_exec(self, arguments: list[str], variables: dict[str, str], user: str, *, stdin: bool) -> str:
        """Prepare a command; nothing runs yet. Blocks for some 2 ms."""
        try:
            made = self.engine.translated(
                self.engine.api.exec_create,
                self.container,
                arguments,
                stdout=True,
                stderr=True,
                stdin=stdin,
                environment=[f"{name}={value}" for name, value in variables.items()],
                user=user,
                workdir="/",
            )
        except EngineError as error:
            raise self.lost_or(error) from error
        exec_id: str = made["Id"]
        return exec_id

    def script(self, name: str, *arguments: str, user: str = "0") -> tuple[int, bytes]:
        """Run a script of ours to its end; its status and what it printed. Blocks for some 70 ms.

        The shell in there may be anybody's by now: a script that prints or waits without end is given up.
        """
        variables = {"AC_RUN": scripts.text_of(name)}
        exec_id = self.create_exec(scripts.invocation(name, *arguments), variables, user, stdin=False)
        api = self.engine.api
        printed: dict[bool, bytearray] = {False: bytearray(), True: bytearray()}
        deadline = time.monotonic() + _SCRIPT_SECONDS
        try:
            line = Line(self.engine.translated(api.exec_start, exec_id, socket=True))
            try:
                while (frame := line.next(deadline)) is not None:
                    printed[frame.is_error] += frame.data
                    if len(printed[frame.is_error]) > _MOST_PRINTED:
                        raise OSError(f"the shell of environment {self.environment_id!r} prints without end")
            except LineDeadlineError:
                raise OSError(f"the shell of environment {self.environment_id!r} does not end") from None
            finally:
                line.close()
            code = self.engine.translated(api.exec_inspect, exec_id)["ExitCode"]
        except EngineError as error:
            raise self.lost_or(error) from error
        if code is None or code in (126, 127, 137):
            self.require_alive()
        return (1 if code is None else code), bytes(printed[False] or printed[True])

    async def in_thread(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run blocking work of this sandbox in a thread; engine errors come out as what they mean."""
        return await asyncio.to_thread(lambda: self.checked(work, *args, **kwargs))

    def checked(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run ``work`` here. Raises ``EnvironmentLostError`` or ``OSError`` for what the engine refuses."""
        try:
            return work(*args, **kwargs)
        except EngineError as error:
            raise self.lost_or(error) from error


def facts_of(engine: Engine, environment_id: str, container: str) -> dict[str, Any]:
    """What the engine knows of a running container. Blocks. Raises ``EnvironmentLostError``."""
    try:
        found: dict[str, Any] = engine.translated(engine.api.inspect_container, container or "-")
    except EngineError as error:
        if error.status == NOT_FOUND:
            raise _lost(environment_id, reason_of_events(engine, container)) from None
        raise
    state = found["State"]
    if not state["Running"]:
        raise _lost(environment_id, reason_of_state(state))
    if state["Paused"]:
        raise _lost(environment_id, "its container is paused")
    return found


def _lost(environment_id: str, reason: str) -> EnvironmentLostError:
    return EnvironmentLostError(f"environment {environment_id!r} is gone: {reason}")
