"""The codec server: decrypts payloads for the Temporal UI and the ``temporal`` command line.

Whoever may call it may read everything, so every call needs the token: as ``Authorization: Bearer``,
or, for a browser, as the cookie that ``/login`` gives in exchange for it. Browsers may call it from the
pages of one origin only. It speaks plain HTTP: beyond this machine, put it behind TLS.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import html
import logging
import re
from dataclasses import dataclass, field
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from google.protobuf.json_format import MessageToJson, Parse, ParseError
from temporalio.api.common.v1 import Payload, Payloads

from ...activities.encryption import EncryptionCodec
from ...contracts.errors import ConfigurationError

MAX_BODY_BYTES = 16 * 1024 * 1024
"""A page of history is at most 4 MB, a third more in base64."""
IDLE_SECONDS = 30
SESSION_SECONDS = 12 * 3600
MIN_TOKEN_LENGTH = 16

_COOKIE = "agentcompass_codec"
_ORIGIN = re.compile(r"https?://[A-Za-z0-9.\-]+(:\d{1,5})?|https?://\[[0-9a-fA-F:]+\](:\d{1,5})?")
_LOG = logging.getLogger("agentcompass.codec_server")
_PAGE = """<!doctype html><meta charset="utf-8"><title>AgentCompass codec server</title>
<body style="font-family: sans-serif; margin: 3em"><h1>AgentCompass codec server</h1><p>{message}</p>
<form method="post" action="/login"><label>Token <input type="password" name="token" autofocus></label>
<button>Log in</button></form></body>"""


@dataclass(frozen=True)
class CodecService:
    """What the server needs to know."""

    codec: EncryptionCodec
    origin: str
    """Of the UI, as browsers send it: ``http://127.0.0.1:8243``."""
    token: str = field(repr=False)

    def __post_init__(self) -> None:
        if not _ORIGIN.fullmatch(self.origin):
            raise ConfigurationError(f"--origin: {self.origin!r} is not scheme://host or scheme://host:port")
        if len(self.token) < MIN_TOKEN_LENGTH:
            raise ConfigurationError(f"the token has to have at least {MIN_TOKEN_LENGTH} characters")

    @property
    def session(self) -> str:
        """The cookie's value: proves that its holder knew the token, and does not tell it."""
        return hmac.new(self.token.encode(), b"agentcompass codec session 1", hashlib.sha256).hexdigest()

    def transform(self, payloads: Payloads, *, decode: bool) -> Payloads:
        """All payloads encoded or decoded; one whose key is not here stays as it is."""
        if not decode:
            return Payloads(payloads=asyncio.run(self.codec.encode(payloads.payloads)))
        return Payloads(payloads=[self._decoded(payload) for payload in payloads.payloads])

    def _decoded(self, payload: Payload) -> Payload:
        try:
            return asyncio.run(self.codec.decode([payload]))[0]
        except ConfigurationError as error:
            _LOG.warning("a payload stays encrypted: %s", error)
            return payload


class CodecServer(ThreadingHTTPServer):
    """One thread a connection; idle connections are closed."""

    daemon_threads = True

    def __init__(self, host: str, port: int, service: CodecService) -> None:
        self.service = service
        super().__init__((host, port), _Handler)


class _Handler(BaseHTTPRequestHandler):
    server: CodecServer
    protocol_version = "HTTP/1.1"
    server_version = "agentcompass-codec"
    sys_version = ""
    timeout = IDLE_SECONDS

    def do_OPTIONS(self) -> None:
        """A browser asks whether the UI's page may call."""
        allowed = self._origin == self.server.service.origin
        self._answer(HTTPStatus.NO_CONTENT if allowed else HTTPStatus.FORBIDDEN)

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        if path == "/healthz":
            self._answer(HTTPStatus.OK, b"ok\n", "text/plain")
        elif path == "/login":
            self._page("The Temporal UI may read payloads from this browser after you logged in.")
        else:
            self._answer(HTTPStatus.NOT_FOUND)

    def do_POST(self) -> None:
        path = urlsplit(self.path).path
        if path == "/login":
            self._log_in()
            return
        operation = path.rpartition("/")[2]
        if operation not in {"decode", "encode"}:
            self._refuse(HTTPStatus.NOT_FOUND, "the calls are /decode and /encode")
        elif self._origin and self._origin != self.server.service.origin:
            self._refuse(HTTPStatus.FORBIDDEN, "not the origin that this server was started for")
        elif not self._authorized():
            self._refuse(HTTPStatus.UNAUTHORIZED, "a bearer token is needed, or a log-in at /login")
        elif (body := self._body(MAX_BODY_BYTES)) is not None:
            self._transform(body, decode=operation == "decode")

    def _transform(self, body: bytes, *, decode: bool) -> None:
        try:
            payloads = Parse(body, Payloads())
        except (ParseError, UnicodeDecodeError, RecursionError):
            self._refuse(HTTPStatus.BAD_REQUEST, "the body is not the JSON form of payloads")
            return
        answer = MessageToJson(self.server.service.transform(payloads, decode=decode), indent=None)
        self._answer(HTTPStatus.OK, answer.encode(), "application/json")

    def _log_in(self) -> None:
        body = self._body(4096)
        if body is None:
            return
        given = parse_qs(body.decode("utf-8", "replace")).get("token", [""])[0].strip()
        service = self.server.service
        if not _equal(given, service.token):
            self._page("This is not the token.", HTTPStatus.UNAUTHORIZED)
            return
        # Over HTTPS the UI may be another site; over HTTP browsers take Strict cookies only.
        scope = "SameSite=None; Secure" if service.origin.startswith("https:") else "SameSite=Strict"
        cookie = f"{_COOKIE}={service.session}; HttpOnly; Path=/; Max-Age={SESSION_SECONDS}; {scope}"
        self._page("Logged in. Reload the page of the Temporal UI.", cookie=cookie)

    @property
    def _origin(self) -> str:
        return self.headers.get("Origin", "")

    def _authorized(self) -> bool:
        service = self.server.service
        scheme, _, token = self.headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "bearer" and _equal(token.strip(), service.token):
            return True
        # A cookie comes by itself: it counts only where the browser says for which page.
        try:
            morsel = SimpleCookie(self.headers.get("Cookie", "")).get(_COOKIE)
        except CookieError:
            return False
        return bool(self._origin) and morsel is not None and _equal(morsel.value, service.session)

    def _body(self, limit: int) -> bytes | None:
        """The request's body; ``None`` when it was refused."""
        length = self.headers.get("Content-Length", "")
        if not length.isascii() or not length.isdigit():
            self._refuse(HTTPStatus.LENGTH_REQUIRED, "Content-Length is missing")
        elif int(length) > limit:
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"at most {limit} bytes")
        else:
            return self.rfile.read(int(length))
        return None

    def _refuse(self, status: HTTPStatus, reason: str) -> None:
        self.close_connection = True  # what is left of the body is not read
        self._answer(status, f"{reason}\n".encode(), "text/plain")

    def _page(self, message: str, status: HTTPStatus = HTTPStatus.OK, cookie: str = "") -> None:
        text = _PAGE.format(message=html.escape(message))
        self._answer(status, text.encode(), "text/html; charset=utf-8", cookie)

    def _answer(
        self, status: HTTPStatus, body: bytes = b"", content_type: str = "", cookie: str = ""
    ) -> None:
        self.send_response(status)
        self.send_header("Vary", "Origin")
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        if self._origin == self.server.service.origin:
            self.send_header("Access-Control-Allow-Origin", self.server.service.origin)
            self.send_header("Access-Control-Allow-Credentials", "true")
            self.send_header("Access-Control-Allow-Methods", "POST, OPTIONS")
            self.send_header("Access-Control-Allow-Headers", "Authorization, Content-Type, X-Namespace")
        if content_type:
            self.send_header("Content-Type", content_type)
        if cookie:
            self.send_header("Set-Cookie", cookie)
        if self.close_connection:
            self.send_header("Connection", "close")
        if status is not HTTPStatus.NO_CONTENT:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        _LOG.info("%s %s", self.address_string(), format % arguments)


def _equal(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), wanted.encode())
