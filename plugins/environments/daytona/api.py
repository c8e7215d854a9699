"""Calls to Daytona's API with the clients of its SDK, which block. What they raise is made ours here."""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import httpx

from ....contracts.errors import ServiceUnreachableError, UsageError
from ....contracts.extras import install_command

if TYPE_CHECKING:
    from daytona_api_client import SandboxApi
    from daytona_toolbox_api_client import ProcessApi

T = TypeVar("T")

NOT_FOUND, CONFLICT, FORBIDDEN, TOO_MANY = 404, 409, 403, 429
_REPEATED = (TOO_MANY, 502, 503, 504)
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.2, 10.0
_POOL = 64


class DaytonaError(Exception):
    """Daytona refused a call."""

    def __init__(self, message: str, status: int, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after = retry_after
        """Seconds after which to come again, when Daytona says so."""


class DaytonaApi:
    """One account. Every method may be called from any thread."""

    def __init__(self, url: str, key: str, organization: str | None, timeout_seconds: float) -> None:
        self.url = url
        self._timeout = timeout_seconds
        self._headers = {"Authorization": f"Bearer {key}", "X-Daytona-Source": "agentcompass"}
        if organization:
            self._headers["X-Daytona-Organization-ID"] = organization

    @functools.cached_property
    def sandboxes(self) -> SandboxApi:
        """Making, finding and removing sandboxes. Raises ``UsageError`` without the SDK."""
        try:
            import daytona_api_client as client
        except ImportError as error:
            raise UsageError(
                f"the environment daytona needs Daytona's SDK: {install_command('daytona')}"
            ) from error
        configuration = client.Configuration(host=self.url, retries=False)
        configuration.connection_pool_maxsize = _POOL
        api_client = client.ApiClient(configuration)
        api_client.default_headers.update(self._headers)
        return client.SandboxApi(api_client)

    def processes(self, base_url: str) -> ProcessApi:
        """Running commands in the sandbox whose toolbox is at ``base_url``."""
        import daytona_toolbox_api_client as client

        configuration = client.Configuration(host=base_url, retries=False)
        configuration.connection_pool_maxsize = _POOL
        api_client = client.ApiClient(configuration)
        api_client.default_headers.update(self._headers)
        return client.ProcessApi(api_client)

    @functools.cached_property
    def bytes(self) -> httpx.Client:
        """For files: the SDK's clients hold them in memory as a whole."""
        return httpx.Client(headers=self._headers, timeout=httpx.Timeout(self._timeout, pool=None))

    def call(self, work: Callable[[float], T], *, seconds: float | None = None) -> T:
        """Do ``work``, whose argument is its timeout in seconds; again while Daytona is too busy or away.

        ``work`` must be such that it may be repeated. Raises ``DaytonaError``, ``UsageError`` for a key that
        is refused, ``ServiceUnreachableError``.
        """
        patience = time.monotonic() + self._timeout
        pause = _FIRST_PAUSE_SECONDS
        while True:
            try:
                return work(seconds or self._timeout)
            except Exception as error:  # of four libraries; what is not theirs is raised again
                meant = _translated(error, self.url)
                if meant is None:
                    raise
                again = isinstance(meant, ServiceUnreachableError) or (
                    isinstance(meant, DaytonaError) and meant.status in _REPEATED
                )
                wait = (meant.retry_after if isinstance(meant, DaytonaError) else None) or pause
                if not again or time.monotonic() + wait > patience:
                    raise self._final(meant) from error
            time.sleep(wait)
            pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)

    def _final(self, error: Exception) -> Exception:
        if isinstance(error, DaytonaError) and error.status in _REPEATED:
            return ServiceUnreachableError(f"Daytona at {self.url} is too busy: {error} ({error.status})")
        return error


@functools.lru_cache(maxsize=16)
def api_at(url: str, key: str, organization: str | None, timeout_seconds: float) -> DaytonaApi:
    """The one client of this process for an account."""
    return DaytonaApi(url, key, organization, timeout_seconds)


def _translated(error: Exception, url: str) -> Exception | None:
    """What an exception of the clients means, ``None`` for any other one."""
    import urllib3
    from daytona_api_client.exceptions import ApiException
    from daytona_toolbox_api_client.exceptions import ApiException as ToolboxException

    if isinstance(error, ApiException | ToolboxException):
        if not error.status:
            return ServiceUnreachableError(f"Daytona at {url} does not answer: {error.reason}")
        headers = error.headers or {}
        return _refusal(
            int(error.status), str(error.body or error.reason or ""), headers.get("Retry-After"), url
        )
    if isinstance(error, httpx.HTTPStatusError):
        response = error.response
        return _refusal(response.status_code, response.text, response.headers.get("Retry-After"), url)
    if isinstance(error, urllib3.exceptions.HTTPError | httpx.TransportError):
        return ServiceUnreachableError(f"Daytona at {url} does not answer: {type(error).__name__}")
    return None


def _refusal(status: int, body: str, retry_after: str | None, url: str) -> Exception:
    message = _message_of(body)
    if status == 401:
        return UsageError(f"Daytona at {url} refuses the key: {message}")
    seconds = float(retry_after) if retry_after and retry_after.strip().isdigit() else None
    return DaytonaError(message, status, seconds)


def _message_of(body: str) -> str:
    try:
        found = json.loads(body)
    except ValueError:
        found = body
    if isinstance(found, dict):
        found = found.get("message") or found.get("error") or body
    lines = [line.strip() for line in str(found).splitlines() if line.strip()]
    return lines[0][:1000] if lines else "no reason given"
