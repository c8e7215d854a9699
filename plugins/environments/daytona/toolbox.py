"""The channel to one sandbox: its toolbox API."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, TypeVar

from ....contracts.errors import ServiceUnreachableError
from .api import NOT_FOUND, DaytonaApi, DaytonaError
from .creation import living
from .records import Facts

if TYPE_CHECKING:
    from daytona_toolbox_api_client import ProcessApi

T = TypeVar("T")
_PIECE = 256 * 1024
_SPARE_SECONDS = 15.0
_LINK_SECONDS = 24 * 3600


@dataclass(frozen=True)
class Toolbox:
    """Implements :class:`~..remote.Channel`."""

    api: DaytonaApi
    facts: Facts

    @property
    def environment_id(self) -> str:
        """Whose sandbox it is."""
        return self.facts.environment_id

    def execute(self, command: str, variables: Mapping[str, str], seconds: float) -> tuple[int, str]:
        """Run a line of shell; its status and output."""
        from daytona_toolbox_api_client import ExecuteRequest

        request = ExecuteRequest(command=command, envs=dict(variables), timeout=round(seconds))

        def execute(timeout: float) -> tuple[int, str]:
            answer = self._processes.execute_command(request, _request_timeout=timeout)
            return answer.exit_code or 0, answer.result

        return self._call(execute, seconds=seconds + _SPARE_SECONDS)

    def send(self, path: str, content: BinaryIO) -> None:
        """Make a file; streamed."""

        def send(timeout: float) -> None:
            content.seek(0)
            self.api.bytes.post(
                f"{self.facts.toolbox}/files/bulk-upload",
                data={"files[0].path": path},
                files={"files[0].file": (path, content)},
                timeout=timeout,
            ).raise_for_status()

        self._call(send)

    @contextmanager
    def receive(self, path: str) -> Iterator[Iterator[bytes]]:
        """A file; streamed. Raises ``FileNotFoundError``."""

        def open_it(timeout: float):  # type: ignore[no-untyped-def]  # httpx' own type
            request = self.api.bytes.build_request(
                "GET", f"{self.facts.toolbox}/files/download", params={"path": path}, timeout=timeout
            )
            response = self.api.bytes.send(request, stream=True)
            if response.is_error:
                response.read()
                response.close()
            return response.raise_for_status()

        try:
            response = self._call(open_it)
        except DaytonaError as error:
            if error.status == NOT_FOUND:
                raise FileNotFoundError(f"{path} does not exist in the environment") from None
            raise OSError(f"{path} cannot be read: {error}") from error
        try:
            yield response.iter_bytes(_PIECE)
        finally:
            response.close()

    def endpoint(self, port: int) -> str | None:
        """A preview link, signed so that it needs no header; good for a day."""
        found = self._call(
            lambda timeout: self.api.sandboxes.get_signed_port_preview_url(
                self.facts.sandbox, port, expires_in_seconds=_LINK_SECONDS, _request_timeout=timeout
            )
        )
        return str(found.url)

    @functools.cached_property
    def _processes(self) -> ProcessApi:
        return self.api.processes(self.facts.toolbox)

    def _call(self, work: Callable[[float], T], *, seconds: float | None = None) -> T:
        """A call to the sandbox; what fails because all is gone is told as that."""
        try:
            return self.api.call(work, seconds=seconds)
        except (DaytonaError, ServiceUnreachableError) as error:
            living(self.api, self.environment_id, self.facts.sandbox)
            if isinstance(error, ServiceUnreachableError) or error.status == NOT_FOUND:
                raise
            raise OSError(f"environment {self.environment_id!r}: {error} ({error.status})") from error
