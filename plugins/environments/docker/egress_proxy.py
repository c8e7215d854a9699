"""The egress proxy of an engine: one container, started by whoever needs it first, ended by itself.

It belongs to no worker, so that an agent goes on reaching what it may while its worker is away.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from typing import Any

from ....contracts.network import NetworkPolicy
from .container import ID_LABEL
from .egress_image import ensure_image, python_command
from .engine import CONFLICT, NOT_FOUND, Engine, EngineError
from .public_network import PublicNetwork, public_network

_log = logging.getLogger(__name__)
PROXY_URL = "http://127.0.0.1:3128"
_NAME, _VOLUME, _LABEL = "agentcompass-egress", "agentcompass-egress", "agentcompass.egress"
_MEMORY = "512m"
_TRIES = 5
_READY_SECONDS = 20.0


class EgressError(OSError):
    """The egress proxy could not be started or did not do as it was told."""


class EgressProxy:
    """Steers the proxy of one engine. Everything here blocks."""

    def __init__(self, engine: Engine, image: str | None) -> None:
        self._engine = engine
        self._image = image
        self._lock = threading.Lock()
        self._ready: str | None = None

    def identity(self) -> str | None:
        """Which run of the proxy is there; sockets that an earlier one held are gone. ``None``: none."""
        try:
            found: dict[str, Any] = self._engine.translated(self._engine.api.inspect_container, _NAME)
        except EngineError as error:
            if error.status == NOT_FOUND:
                return None
            raise
        state = found["State"]
        return f"{found['Id']} {state['StartedAt']}" if state["Running"] else None

    def listen(self, container: str, policy: NetworkPolicy | None) -> str:
        """Let the proxy serve a container by ``policy``, or by the one it had; returns its identity."""
        for attempt in range(_TRIES):
            with self._lock:
                identity = self._ensure()
            request = self._request("listen", container, policy) | {"existing": self._existing()}
            try:
                self._in_network_of(container, request)
            except EgressError:
                if attempt == _TRIES - 1 or self.identity() == identity:
                    raise
                continue  # it ended itself meanwhile, because nobody needed it
            return identity
        raise EgressError("the egress proxy ends as soon as it is started")

    def set_policy(self, container: str, policy: NetworkPolicy) -> bool:
        """Another policy for a container; False when the proxy does not serve it."""
        if self.identity() is None:
            return False
        return bool(self._ask(self._request("policy", container, policy))["listening"])

    def forget(self, container: str) -> None:
        """The container is gone."""
        if self.identity() is not None:
            self._ask(self._request("forget", container, None))

    @staticmethod
    def _request(action: str, container: str, policy: NetworkPolicy | None) -> dict[str, Any]:
        value = policy.model_dump(mode="json") if policy is not None else None
        return {"do": action, "sandbox": container, "policy": value}

    def _existing(self) -> list[str]:
        found = self._engine.translated(self._engine.api.containers, all=True, filters={"label": [ID_LABEL]})
        return [container["Id"] for container in found]

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Ask from inside the proxy's own container, which no agent can touch."""
        api = self._engine.api
        command = [*python_command(self._image), "ask", json.dumps(request)]
        made = self._engine.translated(api.exec_create, _NAME, command, workdir="/opt")
        output: bytes = self._engine.translated(api.exec_start, made["Id"])
        return _parsed(output)

    def _in_network_of(self, container: str, request: dict[str, Any]) -> None:
        """Hand a socket of the container's network over, by a short-lived container in that network."""
        config = self._container(["listen", json.dumps(request)], f"container:{container}", None)
        api = self._engine.api
        made = self._engine.translated(api.create_container_from_config, config)["Id"]
        try:
            self._engine.translated(api.start, made)
            self._engine.translated(api.wait, made)
            output = self._engine.translated(api.logs, made)
        finally:
            self._engine.translated(api.remove_container, made, force=True)
        if not _parsed(output).get("listening"):
            raise EgressError(f"the egress proxy does not listen: {output[-300:]!r}")

    def _container(self, arguments: list[str], network: str, public: PublicNetwork | None) -> dict[str, Any]:
        api = self._engine.api
        host = api.create_host_config(
            network_mode=network,
            cap_drop=["ALL"],
            security_opt=["no-new-privileges"],
            read_only=True,
            mem_limit=_MEMORY,
            pids_limit=128,
            auto_remove=public is not None,
            binds={_VOLUME: {"bind": "/egress", "mode": "rw"}},
            extra_hosts=public.extra_hosts if public else None,
            log_config={"type": "json-file", "config": {"max-size": "5m", "max-file": "2"}},
        )
        config: dict[str, Any] = api.create_container_config(
            image=ensure_image(self._engine, self._image),
            entrypoint=[],
            command=[*python_command(self._image), *arguments],
            working_dir="/opt",
            user="0:0",
            labels={_LABEL: "1"},
            host_config=host,
        )
        return config

    def _ensure(self) -> str:
        """Start the proxy unless it runs; returns its identity."""
        api = self._engine.api
        give_up = time.monotonic() + _READY_SECONDS
        while time.monotonic() < give_up:
            identity = self.identity()
            if identity is not None:
                try:
                    self._await_ready(identity)
                except EgressError as error:
                    if self.identity() == identity:
                        raise
                    _log.debug("egress proxy: %s", error)
                    continue  # it ended itself; the next one is made
                return identity
            network = public_network(self._engine)
            config = self._container(["serve"], network.id, network)
            try:
                self._engine.translated(api.create_container_from_config, config, _NAME)
                _log.info("starting the egress proxy of the engine at %s", self._engine.host)
            except EngineError as error:
                if error.status != CONFLICT:
                    raise EgressError(f"the egress proxy cannot be made: {error}") from error
            try:
                self._engine.translated(api.start, _NAME)
            except EngineError as error:
                # Another worker's is on its way in, or one that has ended on its way out.
                _log.debug("egress proxy: %s", error)
                time.sleep(0.1)
        raise EgressError(f"the egress proxy does not start within {_READY_SECONDS:g} s")

    def _await_ready(self, identity: str) -> None:
        """Ask until it answers. Raises ``EgressError`` when it has ended instead."""
        give_up = time.monotonic() + _READY_SECONDS
        while identity != self._ready:
            try:
                self._ask({"do": "hello"})
                self._ready = identity
            except (EgressError, EngineError) as error:
                if time.monotonic() > give_up or self.identity() != identity:
                    raise EgressError(f"the egress proxy does not get ready: {error}") from error
                time.sleep(0.1)


def _parsed(output: bytes) -> dict[str, Any]:
    try:
        answer: dict[str, Any] = json.loads(output.decode("utf-8", "replace").strip().splitlines()[-1])
    except (ValueError, IndexError):
        raise EgressError(f"the egress proxy does not answer: {output[-500:]!r}") from None
    if "error" in answer:
        raise EgressError(f"the egress proxy refuses: {answer['error']}")
    return answer
