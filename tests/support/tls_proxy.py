"""A TLS endpoint in front of a plain Temporal server, which has none: certificates, and a proxy that checks.

The proxy speaks HTTP/2 as far as it must to see the ``authorization`` header of every call, and hands the
bytes on as they are.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import ipaddress
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import hpack
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_HEADERS, _CONTINUATION = 1, 9
_PADDED, _PRIORITY, _END_HEADERS = 0x8, 0x20, 0x4


@dataclass(frozen=True)
class Certificate:
    """Files in PEM."""

    certificate: Path
    key: Path


class Authority:
    """Signs certificates; ``certificate`` is its own."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        made = self._builder(self._name, self._key, ca=True).sign(self._key, hashes.SHA256())
        self.certificate = folder / f"{name}.pem"
        self.certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))

    def issue(self, name: str) -> Certificate:
        """A certificate for localhost, of a server or a client."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        names = [x509.DNSName("temporal.test"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        builder = self._builder(subject, key, ca=False)
        made = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        files = Certificate(self._folder / f"{name}.pem", self._folder / f"{name}.key")
        signed = made.sign(self._key, hashes.SHA256())
        files.certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
        files.key.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return files

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, *, ca: bool
    ) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        builder = x509.CertificateBuilder(issuer_name=self._name, subject_name=subject)
        builder = builder.public_key(key.public_key()).serial_number(x509.random_serial_number())
        builder = builder.not_valid_before(now - datetime.timedelta(minutes=5))
        builder = builder.not_valid_after(now + datetime.timedelta(days=1))
        return builder.add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)


class TlsProxy:
    """Listens on loopback; ``keys`` are the bearer tokens that calls carried."""

    def __init__(
        self,
        upstream: str,
        certificate: Certificate,
        *,
        clients: Path | None = None,
        wanted_key: str = "",
    ) -> None:
        host, _, port = upstream.rpartition(":")
        self._upstream = host, int(port)
        self._wanted_key = wanted_key
        self.keys: set[str] = set()
        self.port = 0
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate.certificate, certificate.key)
        self._context.set_alpn_protocols(["h2"])
        if clients is not None:
            self._context.load_verify_locations(clients)
            self._context.verify_mode = ssl.CERT_REQUIRED

    @contextlib.contextmanager
    def running(self) -> Iterator[str]:
        """Serve in a thread; yields the address."""
        loop = asyncio.new_event_loop()
        started = threading.Event()
        stopping = asyncio.Event()

        async def serve() -> None:
            server = await asyncio.start_server(self._accept, "127.0.0.1", 0, ssl=self._context)
            self.port = server.sockets[0].getsockname()[1]
            started.set()
            async with server:
                await stopping.wait()
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()

        thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
        thread.start()
        started.wait(10)
        try:
            yield f"127.0.0.1:{self.port}"
        finally:
            loop.call_soon_threadsafe(stopping.set)
            thread.join()
            loop.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer), contextlib.suppress(OSError, asyncio.IncompleteReadError):
            back, forth = await asyncio.open_connection(*self._upstream)
            with contextlib.closing(forth):
                ways = [
                    asyncio.create_task(self._calls(reader, forth)),
                    asyncio.create_task(_copy(back, writer)),
                ]
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)

    async def _calls(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Hand on the client's frames; returns at the first call without the wanted key."""
        decoder = hpack.Decoder()
        block = b""
        writer.write(await reader.readexactly(len(_PREFACE)))
        while True:
            head = await reader.readexactly(9)
            length, kind, flags = int.from_bytes(head[:3], "big"), head[3], head[4]
            payload = await reader.readexactly(length)
            if kind in (_HEADERS, _CONTINUATION):
                block += _fragment(payload, flags) if kind == _HEADERS else payload
                if flags & _END_HEADERS:
                    headers = dict(decoder.decode(block))
                    block = b""
                    key = headers.get("authorization", "").removeprefix("Bearer ")
                    self.keys.add(key)
                    if self._wanted_key and key != self._wanted_key:
                        return
            writer.write(head + payload)
            await writer.drain()


def _fragment(payload: bytes, flags: int) -> bytes:
    """The header block of a HEADERS frame, without padding and priority."""
    end = len(payload)
    if flags & _PADDED:
        end -= payload[0]
        payload, end = payload[1:], end - 1
    return payload[5 if flags & _PRIORITY else 0 : end]


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
