"""What a container has because it is one service of several."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from docker import APIClient


@dataclass(frozen=True)
class Membership:
    """The place of one container among the services of a task."""

    service: str
    network: str
    """The id of the network in which the services reach one another."""
    aliases: list[str]
    """Their names for this one."""
    dns: list[str] = field(default_factory=list)
    """Name servers; empty: the engine's."""
    environment: dict[str, str] = field(default_factory=dict)
    binds: list[str] = field(default_factory=list)
    """``VOLUME:PATH:rw`` or ``:ro``; volumes of the engine, never folders of its machine."""
    nameless_volumes: list[str] = field(default_factory=list)
    tmpfs: dict[str, str] = field(default_factory=dict)
    """From paths to options."""
    hostname: str | None = None

    def host_settings(self) -> dict[str, Any]:
        """For ``create_host_config``, without ``binds``."""
        return {"tmpfs": self.tmpfs or None, "dns": self.dns or None}

    def settings(self, api: APIClient) -> dict[str, Any]:
        """For ``create_container_config``, without ``volumes``."""
        endpoint = api.create_endpoint_config(aliases=self.aliases)
        return {
            "environment": self.environment or None,
            "hostname": self.hostname,
            "networking_config": api.create_networking_config({self.network: endpoint}),
        }
