"""Network policies: what an environment may reach in a phase."""

from __future__ import annotations

import ipaddress
import re
from enum import StrEnum
from typing import Any

from pydantic import Field, field_validator, model_validator

from .base import Contract

_HOST = re.compile(
    r"^(\*\.)?([A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?\.)*[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?\.?$"
)


class NetworkMode(StrEnum):
    """``public``: anything; ``no-network``: nothing; ``allowlist``: ``allowed_hosts`` only."""

    PUBLIC = "public"
    NO_NETWORK = "no-network"
    ALLOWLIST = "allowlist"


def _check_entry(entry: str) -> str:
    """Accept a host name, ``*.domain``, an IP address or a CIDR, each with an optional ``:port``."""
    text = entry.strip()
    if "/" in text and re.match(r"^[A-Za-z][A-Za-z0-9+.-]*://", text):
        raise ValueError(f"{entry!r} is a URL; give its host name only")
    host, port = text, ""
    bracketed = re.fullmatch(r"\[([^\]]+)\](?::(\d+))?", text)
    if bracketed:
        host, port = bracketed.group(1), bracketed.group(2) or ""
    elif text.count(":") == 1:
        host, port = text.split(":")
        if not port.isdigit():
            raise ValueError(f"{entry!r}: the part after ':' must be a port number")
    if port and not 0 < int(port) < 65536:
        raise ValueError(f"{entry!r}: port {port} is not between 1 and 65535")
    try:
        ipaddress.ip_network(host, strict=False)
    except ValueError:
        if re.fullmatch(r"[\d./]+", host) or not _HOST.match(host):
            raise ValueError(
                f"{entry!r} is not a host name, *.domain, IP address or CIDR (no scheme, no path)"
            ) from None
    return text


class NetworkPolicy(Contract):
    """A mode and, for ``allowlist``, its hosts. A bare string in a configuration is the mode."""

    network_mode: NetworkMode = NetworkMode.PUBLIC
    allowed_hosts: list[str] = Field(default_factory=list)

    @model_validator(mode="before")
    @classmethod
    def _from_string(cls, value: Any) -> Any:
        return {"network_mode": value} if isinstance(value, str) else value

    @field_validator("allowed_hosts")
    @classmethod
    def _check_hosts(cls, value: list[str]) -> list[str]:
        return [_check_entry(entry) for entry in value]

    @model_validator(mode="after")
    def _hosts_need_allowlist(self) -> NetworkPolicy:
        if self.allowed_hosts and self.network_mode is not NetworkMode.ALLOWLIST:
            raise ValueError(
                f"allowed_hosts goes with network_mode 'allowlist', not with '{self.network_mode}'"
            )
        return self
