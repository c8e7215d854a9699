"""The proxy: takes the agent's calls with a token of its own and passes them on with the real key."""

from __future__ import annotations

import asyncio
import hmac
import json
import random
import time
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

import httpx

from ...contracts.issues import Issue, IssuePhase
from ...contracts.request import ModelProtocol, ModelSpec
from ..models.client import ModelResponse
from ..models.endpoint import base_url_of, endpoint_url
from ..models.failures import failure_for, fault_for_status, read_error
from ..models.json_values import JsonObject, ProtocolViolation, decode_json
from ..models.params import parse_model_params
from ..models.prices import charge_of
from ..models.protocols import PROTOCOLS
from ..models.retry import Fault, FaultKind, next_delay, policy_of
from ..models.transport import connection_reason, is_permanent, open_client
from .assembly import assembled
from .calls import ProxiedCall, used_up
from .exchange import Exchange
from .http_server import HttpRequest, Responder, serve_connection
from .params import LOOPBACK, ModelProxyParams

_ENDINGS = {
    "/chat/completions": ModelProtocol.OPENAI_CHAT,
    "/responses": ModelProtocol.OPENAI_RESPONSES,
    "/messages": ModelProtocol.ANTHROPIC,
}
_PASSED_ON = ("content-type", "accept", "anthropic-version", "anthropic-beta", "openai-beta", "user-agent")
_PASSED_BACK = ("content-type", "retry-after", "retry-after-ms", "request-id", "x-request-id")
_BLOCKING = (401, 402, 403)
MAX_KEPT_BYTES = 16 * 1024 * 1024
"""Of an answer that is read for its tokens; the agent gets the whole."""
MAX_TEXT = 65_536


class ModelProxy:
    """Serves while it is entered. ``issue`` says why no further call is allowed, once that is so."""

    def __init__(
        self,
        spec: ModelSpec,
        api_key: str,
        token: str,
        params: ModelProxyParams,
        *,
        port: int,
        calls: list[ProxiedCall],
        on_call: Callable[[], Awaitable[None]],
    ) -> None:
        """``calls`` is added to; ``on_call`` is awaited after each, to put them on disk."""
        self.issue: Issue | None = used_up(calls, params)
        self.calls = calls
        self._spec, self._params, self._port, self._on_call = spec, params, port, on_call
        self._authorized = (token.encode(), f"Bearer {token}".encode())
        self.__key = api_key
        self._policy = policy_of(parse_model_params(spec))
        self._connections: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        """Raises ``OSError`` when the address is taken."""
        self._server = await asyncio.start_server(self._accept, self._params.bind or LOOPBACK, self._port)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        await self._server.wait_closed()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            await serve_connection(reader, writer, self._handle)
        except asyncio.CancelledError:
            pass  # the proxy is closing; asyncio would log a cancelled handler as an error
        finally:
            self._connections.discard(task)

    async def _handle(self, request: HttpRequest, responder: Responder) -> None:
        protocol = next((found for end, found in _ENDINGS.items() if request.path.endswith(end)), None)
        if not self._is_authorized(request):
            await _refuse(responder, 401, "the token of this endpoint is wrong")
        elif protocol is None or request.method != "POST":
            await _refuse(responder, 404, f"no {request.method} {request.path[:100]} here")
        elif self.issue is not None:
            await _refuse(responder, 403, self.issue.message)
        else:
            await self._pass_on(protocol, request, responder)

    def _is_authorized(self, request: HttpRequest) -> bool:
        given = request.headers.get("authorization") or request.headers.get("x-api-key", "")
        sent = given.encode("utf-8", "replace")
        return any(hmac.compare_digest(sent, known) for known in self._authorized)

    async def _pass_on(self, protocol: ModelProtocol, request: HttpRequest, responder: Responder) -> None:
        try:
            body = decode_json(request.body)
        except ProtocolViolation as violation:
            return await _refuse(responder, 400, str(violation))
        if not isinstance(body, dict) or body.get("model") != self._spec.id:
            return await _refuse(responder, 403, f"only model {self._spec.id!r} can be called here")
        if protocol is ModelProtocol.OPENAI_CHAT and body.get("stream"):
            # Without it a stream does not tell its tokens.
            options = body.get("stream_options")
            body["stream_options"] = {**(options if isinstance(options, dict) else {}), "include_usage": True}
        try:
            call = await self._exchange_with_patience(protocol, request, body, responder)
        except (httpx.TransportError, TimeoutError) as error:
            reason = connection_reason(error) if isinstance(error, httpx.TransportError) else "no answer"
            if not responder.started:
                await _refuse(responder, 502, f"the model endpoint cannot be reached: {reason}")
            return None
        if call.status in _BLOCKING:
            fault = fault_for_status(call.status, read_error(bytes(call.raw)), None, self.__key)
            host = endpoint_url(base_url_of(self._spec, protocol), protocol).host
            self.issue = failure_for([fault], host, IssuePhase.RUN).issue
        await responder.end()
        return None

    async def _exchange_with_patience(
        self, protocol: ModelProtocol, request: HttpRequest, body: JsonObject, responder: Responder
    ) -> Exchange:
        """Try again while no connection holds, by the policy of all model calls: agents give up sooner.

        What the endpoint answers, a 429 with its ``Retry-After`` too, goes back to the agent at once. Silence
        does, too: the request may be worked on and paid for, and the agent tries again if it wants to.
        Each request that went out is noted. Raises ``ClientGoneError`` when the agent hangs up.
        """
        faults: list[Fault] = []
        while True:
            call = Exchange(protocol, len(request.body))
            try:
                await responder.while_client_stays(self._exchange(call, request, body, responder))
            except (httpx.TransportError, TimeoutError) as error:
                faults.append(_fault_of(error))
                delay = None if responder.started or _is_silence(error) else self._delay(faults)
                if call.sent or delay is None:
                    await self._note(call, broken=502)
                if delay is None or self.issue is not None:
                    raise
            except (ConnectionError, asyncio.CancelledError):  # the agent hangs up, or the proxy closes
                if call.sent:
                    await self._note(call, broken=None if call.status else 499)
                raise
            else:
                await self._note(call)
                return call
            await responder.while_client_stays(asyncio.sleep(delay))

    def _delay(self, faults: list[Fault]) -> float | None:
        return next_delay(self._policy, faults, jitter=random.random(), seconds_left=None)

    async def _exchange(
        self, call: Exchange, request: HttpRequest, body: JsonObject, responder: Responder
    ) -> None:
        """Send on and pass the answer back piece by piece; ``call`` learns what is needed to read it."""
        protocol = call.protocol
        url = endpoint_url(base_url_of(self._spec, protocol), protocol)
        if request.query and not url.query:
            url = url.copy_with(query=request.query.encode())
        headers = {name: request.headers[name] for name in _PASSED_ON if name in request.headers}
        payload = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
        own = PROTOCOLS[protocol]().headers(self.__key)
        async with (
            asyncio.timeout(self._policy.request_timeout_seconds),
            open_client(url, {**own, **headers}) as client,
            client.stream("POST", url, content=payload, extensions={"trace": call.trace}) as response,
        ):
            back = {name: response.headers[name] for name in _PASSED_BACK if name in response.headers}
            call.status = response.status_code
            call.content_type = response.headers.get("content-type", "")
            await responder.start(response.status_code, back)
            if response.status_code >= 400:
                # Whole, because an endpoint may repeat the key in its refusal.
                call.raw += (await response.aread()).replace(self.__key.encode() or b"\0", b"***")
                await responder.write(bytes(call.raw))
                return
            try:
                async for piece in response.aiter_bytes():
                    if len(call.raw) < MAX_KEPT_BYTES:
                        call.raw += piece
                    await responder.write(piece)
            except httpx.DecodingError as error:  # compressed, and broken on the way
                raise httpx.RemoteProtocolError(str(error)) from error

    async def _note(self, call: Exchange, broken: int | None = None) -> None:
        """``broken`` is the status of a call without a whole answer."""
        refused = call.status is not None and call.status >= 400
        unanswered = call.sent and broken is not None and not refused
        response = _read(call)
        charge = charge_of(response, call.sent_characters, self._spec.id, self._params.prices)
        status = call.status if refused or broken is None else broken
        assert status is not None
        charged = status < 400 or unanswered
        self.calls.append(
            ProxiedCall(
                at=time.time(),
                protocol=call.protocol.value,
                status=status,
                latency_seconds=round(time.monotonic() - call.began, 3),
                model=response.model or self._spec.id,
                content=response.content[:MAX_TEXT],
                reasoning=(response.reasoning or "")[:MAX_TEXT] or None,
                tool_calls=response.tool_calls,
                stop_reason=response.stop_reason,
                usage=response.usage,
                tokens=charge.tokens if charged else 0,
                estimated=charged and charge.estimated,
                cost_usd=charge.cost_usd if charged else None,
                unanswered=unanswered,
            )
        )
        self.issue = self.issue or used_up(self.calls, self._params)
        await self._on_call()


def _is_silence(error: httpx.TransportError | TimeoutError) -> bool:
    """True when a connection held and nothing came."""
    return isinstance(error, TimeoutError | httpx.ReadTimeout | httpx.WriteTimeout)


def _fault_of(error: httpx.TransportError | TimeoutError) -> Fault:
    if isinstance(error, TimeoutError):
        return Fault(FaultKind.TIMEOUT, "")
    return Fault(FaultKind.CONNECTION, "", transient=not is_permanent(error))


async def _refuse(responder: Responder, status: int, message: str) -> None:
    error = {"type": "agentcompass_proxy", "code": "agentcompass_proxy", "message": message}
    await responder.send(status, json.dumps({"type": "error", "error": error}).encode())


def _read(call: Exchange) -> ModelResponse:
    """What the answer says; nothing of one that cannot be read: the agent has got it already."""
    if call.status is None or call.status >= 400:
        return ModelResponse()
    try:
        reply = PROTOCOLS[call.protocol]().read(assembled(call.protocol, call.content_type, bytes(call.raw)))
    except ProtocolViolation:
        return ModelResponse()
    return ModelResponse(
        content=reply.content,
        reasoning=reply.reasoning,
        tool_calls=reply.tool_calls,
        usage=reply.usage,
        stop_reason=reply.stop_reason,
        model=reply.model or "",
        cost_usd=reply.cost_usd,
    )
