"""HTTP for model calls: bounded bodies, credentials that no repr shows, proxies but for loopback."""

from __future__ import annotations

import functools
import socket
import ssl
from collections.abc import Generator, Iterator
from dataclasses import dataclass

import httpx

from ...contracts.errors import ConfigurationError
from .endpoint import is_loopback

MAX_BODY_BYTES = 64 * 1024 * 1024
CONNECT_TIMEOUT_SECONDS = 30.0


@dataclass(frozen=True)
class HttpAnswer:
    """A complete HTTP answer."""

    status: int
    headers: httpx.Headers
    body: bytes


class BodyTooLargeError(Exception):
    """The answer is larger than :data:`MAX_BODY_BYTES`."""


class Credentials(httpx.Auth):
    """Sets headers at the moment of sending, so that client, request builder and repr lack them."""

    def __init__(self, headers: dict[str, str]) -> None:
        self._headers = headers

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        request.headers.update(self._headers)
        yield request

    def __repr__(self) -> str:
        return "Credentials(***)"


@functools.cache
def _tls() -> ssl.SSLContext:
    """One context per process: making one takes tens of milliseconds of CPU."""
    return httpx.create_ssl_context()


def open_client(url: httpx.URL, headers: dict[str, str] | None = None) -> httpx.AsyncClient:
    """A client for ``url``; proxies come from the environment, loopback is reached directly."""
    try:
        return httpx.AsyncClient(
            auth=Credentials(headers or {}),
            verify=_tls(),
            timeout=httpx.Timeout(None, connect=CONNECT_TIMEOUT_SECONDS),
            trust_env=not is_loopback(url.host),
        )
    except (ImportError, ValueError) as error:  # a SOCKS proxy without its package, an odd proxy URL
        raise ConfigurationError(f"the proxy variables of the environment cannot be used: {error}") from None


async def post_json(client: httpx.AsyncClient, url: httpx.URL, body: bytes) -> HttpAnswer:
    """Post ``body`` and read the whole answer. The caller sets the time limit."""
    headers = {"content-type": "application/json", "accept": "application/json"}
    async with client.stream("POST", url, content=body, headers=headers) as response:
        received = bytearray()
        async for chunk in response.aiter_bytes():
            received += chunk
            if len(received) > MAX_BODY_BYTES:
                raise BodyTooLargeError(f"larger than {MAX_BODY_BYTES // 2**20} MiB")
    return HttpAnswer(response.status_code, response.headers, bytes(received))


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    queue: list[BaseException | None] = [error]
    while queue:
        current = queue.pop()
        if current is None or id(current) in seen:
            continue
        seen.add(id(current))
        yield current
        queue += [current.__cause__, current.__context__]
        if isinstance(current, BaseExceptionGroup):
            queue += current.exceptions


def connection_reason(error: httpx.TransportError) -> str:
    """Why there is no connection, in a few words; the exceptions in between say it badly."""
    for cause in _causes(error):
        match cause:
            case ConnectionRefusedError():
                return "connection refused"
            case socket.gaierror():
                return "host name not found"
            case ssl.SSLCertVerificationError():
                return f"the TLS certificate is not trusted ({cause.verify_message})"
            case ssl.SSLError():
                return f"TLS failed ({cause.reason or 'unknown reason'})"
            case ConnectionResetError():
                return "connection reset"
    if isinstance(error, httpx.ConnectTimeout):
        return "connecting took too long"
    return str(error) or type(error).__name__


def is_permanent(error: httpx.TransportError) -> bool:
    """True when trying again cannot help: a certificate that is not trusted, a request that is illegal."""
    if isinstance(error, httpx.LocalProtocolError | httpx.UnsupportedProtocol):
        return True
    return any(isinstance(cause, ssl.SSLCertVerificationError) for cause in _causes(error))
