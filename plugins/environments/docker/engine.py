"""The connection to one Docker engine. The SDK blocks, so that its calls run in threads."""

from __future__ import annotations

import asyncio
import functools
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar
from urllib.parse import urlsplit

from ....contracts.errors import ServiceUnreachableError, UsageError
from ..shared.cancellation import finish
from .ssh_tunnel import SshTunnel

if TYPE_CHECKING:
    from docker import APIClient
    from requests import Response

P = ParamSpec("P")
T = TypeVar("T")

DEFAULT_HOST = "unix:///var/run/docker.sock"
NOT_FOUND, CONFLICT = 404, 409
_POOL = 64


class EngineError(Exception):
    """The engine refused a call."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class Engine:
    """One engine, by its address. Every method may be called from any thread."""

    def __init__(self, host: str | None, timeout_seconds: float) -> None:
        self.host = host or os.environ.get("DOCKER_HOST") or DEFAULT_HOST
        self._timeout = timeout_seconds
        self._tunnel = SshTunnel(self.host) if self.host.startswith("ssh://") else None
        self._info: dict[str, Any] | None = None

    @property
    def local(self) -> bool:
        """True when it runs on this machine, so that no other machine's worker reaches it."""
        parts = urlsplit(self.host)
        if parts.scheme in ("unix", "npipe"):
            return True
        return parts.hostname in ("localhost", "127.0.0.1", "::1")

    @property
    def api(self) -> APIClient:
        """The SDK's client. Raises ``ServiceUnreachableError``, ``UsageError`` for wrong certificates. Blocks."""
        if self._tunnel is not None:
            self._tunnel.address()  # a connection that broke off is made again behind the same socket
        return self._client

    @functools.cached_property
    def _client(self) -> APIClient:
        import docker
        from docker.utils import kwargs_from_env

        address = self._tunnel.address() if self._tunnel is not None else self.host
        try:
            settings = kwargs_from_env(environment={**os.environ, "DOCKER_HOST": address})
            return _client_class("tls" in settings)(
                version="auto",
                timeout=self._timeout,
                max_pool_size=_POOL,
                user_agent="agentcompass",
                **settings,
            )
        except docker.errors.TLSParameterError as error:
            place = os.environ.get("DOCKER_CERT_PATH") or "~/.docker"
            raise UsageError(
                f"DOCKER_CERT_PATH ({place}) lacks ca.pem, cert.pem or key.pem: {error}"
            ) from error
        except docker.errors.DockerException as error:
            raise ServiceUnreachableError(
                f"no Docker engine answers at {self.host}: {_first_line(error)}; is it running, and may this "
                "user use it?"
            ) from error

    def info(self) -> dict[str, Any]:
        """What the engine says of itself, as it was when first asked. Blocks."""
        if self._info is None:
            self._info = self.translated(self.api.info)
        return self._info

    async def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call ``function`` in a thread; a cancellation does not wait for it.

        Raises ``EngineError`` and ``ServiceUnreachableError``.
        """
        return await asyncio.to_thread(lambda: self.translated(function, *args, **kwargs))

    async def settle(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The same, but waited for when cancelled: whoever cleans up then finds what it made."""
        return await finish(asyncio.to_thread(lambda: self.translated(function, *args, **kwargs)))

    def translated(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call ``function`` here, with the SDK's exceptions made ours."""
        import docker
        import requests

        try:
            return function(*args, **kwargs)
        except docker.errors.APIError as error:
            status = error.response.status_code if error.response is not None else 0
            raise EngineError(_first_line(error.explanation or error), status) from error
        except docker.errors.DockerException as error:
            raise EngineError(_first_line(error), 0) from error
        except (requests.exceptions.ConnectionError, requests.exceptions.Timeout) as error:
            raise ServiceUnreachableError(
                f"the Docker engine at {self.host} does not answer: {_first_line(error)}"
            ) from error

    def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        stream: bool = False,
        **more: Any,
    ) -> Response:
        """A call that the SDK has no method for, or only one that keeps its answer from being cut off.

        Blocks. Raises ``EngineError`` and ``ServiceUnreachableError``.
        """
        url = f"{self.api.base_url}/v{self.api.api_version}{path}"
        more.setdefault("timeout", self._timeout)

        def send() -> Response:
            response: Response = self.api.request(method, url, params=params, stream=stream, **more)
            return response

        response = self.translated(send)
        if response.status_code >= 400:
            text = response.text if method != "HEAD" else response.reason
            response.close()
            raise EngineError(_message_of(text), response.status_code)
        return response


def _client_class(tls: bool) -> type[APIClient]:
    import docker

    plain: type[APIClient] = docker.APIClient
    if not tls:
        return plain

    class OwnAuthority(docker.APIClient):  # type: ignore[misc]
        """Trusts who ``DOCKER_CERT_PATH`` names: requests would rather believe ``REQUESTS_CA_BUNDLE``."""

        trust_env = property(lambda self: False, lambda self, value: None)

    return OwnAuthority


@functools.lru_cache(maxsize=16)
def engine_at(host: str | None, environment_host: str | None, timeout_seconds: float) -> Engine:
    """The one connection of this process to an engine; ``environment_host`` is ``DOCKER_HOST``."""
    return Engine(host or environment_host, timeout_seconds)


def _message_of(text: str) -> str:
    import json

    try:
        return _first_line(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        return _first_line(text)


def _first_line(value: object) -> str:
    lines = [line.strip() for line in str(value).splitlines() if line.strip()]
    return lines[0][:1000] if lines else type(value).__name__
