"""What a sandbox may reach: the decisions of the proxy, without any I/O."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, field
from typing import Any

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_METADATA = {ipaddress.ip_address(text) for text in ("fd00:ec2::254", "100.100.100.200")}


class ForbiddenError(Exception):
    """The policy does not allow it; the message is for the user of the sandbox."""


@dataclass(frozen=True)
class Rule:
    """One entry of ``allowed_hosts``: a name, a suffix of names, or a network; and a port."""

    name: str = ""
    suffix: str = ""
    network: Network | None = None
    port: int | None = None

    @classmethod
    def parse(cls, entry: str) -> Rule:
        """An entry as ``NetworkPolicy`` accepts it. Raises ``ValueError`` for anything else."""
        host, port = entry.strip(), ""
        bracketed = re.fullmatch(r"\[([^\]]+)\](?::(\d+))?", host)
        if bracketed:
            host, port = bracketed.group(1), bracketed.group(2) or ""
        elif host.count(":") == 1:
            host, _, port = host.partition(":")
        number = int(port) if port else None
        try:
            return cls(network=ipaddress.ip_network(host, strict=False), port=number)
        except ValueError:
            pass
        if host.startswith("*."):
            return cls(suffix=plain_name(host[1:]), port=number)
        return cls(name=plain_name(host), port=number)

    def _port_fits(self, port: int) -> bool:
        return self.port is None or self.port == port

    def fits_name(self, name: str, port: int) -> bool:
        """Whether it allows a name; ``*.domain`` does not mean the domain itself."""
        if not self._port_fits(port):
            return False
        return (bool(self.name) and name == self.name) or (bool(self.suffix) and name.endswith(self.suffix))

    def fits_address(self, address: Address, port: int) -> bool:
        """Whether it allows an address."""
        return self._port_fits(port) and self.network is not None and address in self.network


@dataclass(frozen=True)
class Policy:
    """The policy of one sandbox. Unknown modes allow nothing."""

    mode: str = "no-network"
    rules: list[Rule] = field(default_factory=list)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Policy:
        """A ``NetworkPolicy`` as JSON."""
        entries = [Rule.parse(str(entry)) for entry in value.get("allowed_hosts") or []]
        return cls(mode=str(value.get("network_mode")), rules=entries)

    def require_name(self, name: str, port: int) -> None:
        """Raise ``ForbiddenError``; called before a name is resolved, since a query tells things, too."""
        if self.mode == "public":
            return
        if self.mode != "allowlist" or not any(rule.fits_name(name, port) for rule in self.rules):
            raise ForbiddenError(f"{name}:{port} is not in allowed_hosts")

    def require_address(self, address: Address, port: int, *, of_allowed_name: bool) -> None:
        """Raise ``ForbiddenError``. An allowed name may not stand for the proxy's own machine."""
        if self.mode == "public":
            return
        listed = self.mode == "allowlist" and any(rule.fits_address(address, port) for rule in self.rules)
        if not listed and (not of_allowed_name or is_internal(address)):
            raise ForbiddenError(f"[{address}]:{port} is not in allowed_hosts")


def plain_name(name: str) -> str:
    """A host name in the form in which names are compared. Raises ``ValueError``."""
    text = name.rstrip(".").lower()
    if not text.isascii():
        text = text.encode("idna").decode("ascii")
    if not text or not re.fullmatch(r"[a-z0-9._-]+", text):
        raise ValueError(f"{name!r} is not a host name")
    return text


def plain_address(text: str) -> Address | None:
    """The address that ``text`` is, IPv4 inside IPv6 taken out; ``None`` for a name."""
    try:
        address = ipaddress.ip_address(text.strip("[]").partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def is_internal(address: Address) -> bool:
    """Addresses of the machine itself or its surroundings, where metadata services are."""
    return (
        address.is_loopback
        or address.is_link_local
        or address.is_unspecified
        or address.is_multicast
        or address in _METADATA
    )
