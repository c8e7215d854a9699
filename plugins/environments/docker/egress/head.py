"""The head of a request to the proxy."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

_DROPPED = {b"host", b"connection", b"keep-alive", b"proxy-connection", b"proxy-authorization", b"upgrade"}
_TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


class BadRequestError(Exception):
    """Not a request that this proxy understands; the message says why."""


@dataclass(frozen=True)
class Head:
    """Where a request goes, and what is sent there first (nothing for a tunnel)."""

    host: str
    port: int
    tunnel: bool
    forwarded: bytes = b""

    @classmethod
    def parse(cls, data: bytes) -> Head:
        """Everything up to the empty line. Raises ``BadRequestError``."""
        lines = data.rstrip(b"\r\n").split(b"\r\n")
        words = lines[0].split(b" ")
        if len(words) != 3 or not _TOKEN.fullmatch(words[0]) or not words[2].startswith(b"HTTP/1."):
            raise BadRequestError("this is no HTTP request")
        headers = lines[1:]
        for line in headers:
            name, colon, _ = line.partition(b":")
            if not colon or not _TOKEN.fullmatch(name) or b"\n" in line or b"\r" in line:
                raise BadRequestError("a malformed header")
        method, target = words[0], words[1].decode("latin-1")
        if method == b"CONNECT":
            host, port = _authority(target, 0)
            return cls(host, port, True)
        return cls._of_url(method, target, headers)

    @classmethod
    def _of_url(cls, method: bytes, target: str, headers: list[bytes]) -> Head:
        parts = urlsplit(target)
        if parts.scheme != "http" or not parts.netloc:
            raise BadRequestError("a proxy takes absolute http:// addresses, and CONNECT for all else")
        authority = parts.netloc.rpartition("@")[2]
        host, port = _authority(authority, 80)
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        kept = [line for line in headers if line.partition(b":")[0].lower() not in _DROPPED]
        # One request for each connection: the next one is judged by itself.
        added = [b"Host: " + authority.encode("latin-1"), b"Connection: close"]
        first = method + b" " + path.encode("latin-1") + b" HTTP/1.1"
        return cls(host, port, False, b"\r\n".join([first, *added, *kept]) + b"\r\n\r\n")


def _authority(text: str, default: int) -> tuple[str, int]:
    found = re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[^:\[\]@/\s]+)(?::(\d{1,5}))?", text)
    port = int(found.group(2) or default) if found else 0
    if not found or not 0 < port < 65536:
        raise BadRequestError(f"{text[:200]!r} is not host:port")
    return found.group(1), port
