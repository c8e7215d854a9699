"""Entries of allow lists as services take them."""

from __future__ import annotations

import ipaddress

from ....contracts.errors import UsageError


def ipv4_network(entry: str, service: str) -> str | None:
    """An address or a network in CIDR notation, ``None`` for a name.

    Raises ``UsageError`` for IPv6, which ``service`` has no list for.
    """
    try:
        found = ipaddress.ip_network(entry.strip("[]"), strict=False)
    except ValueError:
        return None
    if found.version != 4:
        raise UsageError(f"{service} allows IPv4 networks only, not {entry!r}")
    return str(found)
