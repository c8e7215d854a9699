"""Who may ask the codec server, and what a browser is told."""

from __future__ import annotations

import asyncio
import base64
import socket
import threading
from collections.abc import Iterator

import httpx
import pytest
from google.protobuf.json_format import MessageToJson
from temporalio.api.common.v1 import Payload, Payloads

from agentcompass.activities.encryption import encryption_codec
from agentcompass.cli.serving.codec_server import CodecServer, CodecService
from agentcompass.contracts.errors import ConfigurationError

ORIGIN = "http://ui.example:8080"
TOKEN = "a-token-of-some-length"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
PLAIN = Payload(metadata={"encoding": b"json/plain"}, data=b'"launch code"')


def codec(fill: bytes):
    found = encryption_codec({"AGENTCOMPASS_PAYLOAD_KEY": base64.b64encode(fill * 32).decode()})
    assert found is not None
    return found


@pytest.fixture
def client() -> Iterator[httpx.Client]:
    server = CodecServer("127.0.0.1", 0, CodecService(codec(b"k"), ORIGIN, TOKEN))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    with server, httpx.Client(base_url=f"http://127.0.0.1:{server.server_address[1]}") as client:
        yield client
        server.shutdown()
    thread.join()


def body(*payloads: Payload) -> str:
    return MessageToJson(Payloads(payloads=payloads))


def encrypted(fill: bytes = b"k") -> Payload:
    return asyncio.run(codec(fill).encode([PLAIN]))[0]


def data_of(answer: httpx.Response) -> list[bytes]:
    return [base64.b64decode(payload["data"]) for payload in answer.json()["payloads"]]


def test_decodes_for_who_has_the_token(client: httpx.Client) -> None:
    answer = client.post("/decode", content=body(encrypted(), PLAIN), headers=BEARER)
    assert answer.status_code == 200 and data_of(answer) == [b'"launch code"', b'"launch code"']
    assert answer.headers["cache-control"] == "no-store"


def test_encodes_what_an_operator_sends_from_the_ui(client: httpx.Client) -> None:
    answer = client.post("/encode", content=body(PLAIN), headers=BEARER)
    [payload] = answer.json()["payloads"]
    assert base64.b64decode(payload["metadata"]["encoding"]) == b"binary/encrypted"
    assert data_of(client.post("/decode", content=answer.content, headers=BEARER)) == [b'"launch code"']


def test_payload_of_another_key_stays_as_it_is_and_the_others_are_readable(client: httpx.Client) -> None:
    strange = encrypted(b"s")
    answer = client.post("/decode", content=body(strange, encrypted()), headers=BEARER)
    assert data_of(answer) == [strange.data, b'"launch code"']


@pytest.mark.parametrize("value", ["", "Bearer", "Bearer wrong", f"Basic {TOKEN}", f"Bearer {TOKEN}x"])
def test_without_the_token_nothing_is_decoded(client: httpx.Client, value: str) -> None:
    answer = client.post("/decode", content=body(encrypted()), headers={"Authorization": value})
    assert answer.status_code == 401 and b"launch code" not in answer.content


def test_browser_may_call_from_the_pages_of_the_ui_only(client: httpx.Client) -> None:
    asking = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "x-namespace"}
    allowed = client.options("/decode", headers={"Origin": ORIGIN, **asking})
    assert allowed.status_code == 204
    assert allowed.headers["access-control-allow-origin"] == ORIGIN
    assert "X-Namespace" in allowed.headers["access-control-allow-headers"]
    refused = client.options("/decode", headers={"Origin": "http://evil.example", **asking})
    assert refused.status_code == 403 and "access-control-allow-origin" not in refused.headers
    strange = client.post("/decode", content=body(PLAIN), headers={**BEARER, "Origin": "http://evil.example"})
    assert strange.status_code == 403


def test_browser_logs_in_once_and_is_known_by_its_cookie(client: httpx.Client) -> None:
    assert 'name="token"' in client.get("/login").text
    assert client.post("/login", data={"token": "wrong"}).status_code == 401
    answer = client.post("/login", data={"token": TOKEN})
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=Strict" in cookie and TOKEN not in cookie
    given = {"Cookie": cookie.partition(";")[0]}
    from_ui = client.post("/decode", content=body(encrypted()), headers={**given, "Origin": ORIGIN})
    assert data_of(from_ui) == [b'"launch code"']
    assert from_ui.headers["access-control-allow-credentials"] == "true"
    elsewhere = client.post("/decode", content=body(encrypted()), headers=given)
    assert elsewhere.status_code == 401


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[1]", b'{"payloads": 3}', b'{"unknown": 1}', b"\xff", b"[" * 100_000]
)
def test_body_that_is_no_payloads_is_refused(client: httpx.Client, content: bytes) -> None:
    assert client.post("/decode", content=content, headers=BEARER).status_code == 400


def test_body_that_is_too_large_is_refused_before_it_is_read(client: httpx.Client) -> None:
    address = (str(client.base_url.host), int(client.base_url.port or 0))
    with socket.create_connection(address, timeout=10) as connection:
        head = f"POST /decode HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: {2**40}\r\n\r\n"
        connection.sendall(head.encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 413 ")


def test_health_needs_no_token(client: httpx.Client) -> None:
    assert client.get("/healthz").status_code == 200
    assert client.get("/decode").status_code == 404


@pytest.mark.parametrize("origin", ["*", "ui.example", "http://ui.example/path", "http://a\r\nX: b"])
def test_origin_that_is_none_is_refused(origin: str) -> None:
    with pytest.raises(ConfigurationError, match="--origin"):
        CodecService(codec(b"k"), origin, TOKEN)
