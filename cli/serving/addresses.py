"""Addresses to listen on, as operators write them."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from ...contracts.errors import UsageError


@dataclass(frozen=True)
class ListenAddress:
    """An IP address and a port."""

    host: str
    port: int

    @property
    def text(self) -> str:
        """As in an URL."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(value: str, flag: str, *, offset: int = 0) -> ListenAddress | None:
    """``HOST:PORT``, or ``None`` for an empty value; ``offset`` is added to the port.

    Only IP addresses and ``localhost``: a name may mean several. Raises ``UsageError`` that names the flag.
    """
    if not value:
        return None
    host, separator, port = value.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    try:
        address = ipaddress.ip_address("127.0.0.1" if host == "localhost" else host)
        number = int(port) + offset
    except ValueError:
        separator, number, address = "", 0, ipaddress.ip_address("127.0.0.1")
    if not separator or not 0 < number < 65536:
        raise UsageError(f"{flag}: {value!r} is not IP:PORT, such as 127.0.0.1:9464")
    return ListenAddress(str(address), number)
