"""The model client for HTTP endpoints: protocol + transport + the one retry policy."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable, Sequence

import httpx
from pydantic import ValidationError

from ...contracts.errors import StageFailure
from ...contracts.issues import IssueCode, IssuePhase
from ...contracts.request import ModelSpec
from ...contracts.task import Message, ToolDefinition
from .client import ModelClient, ModelResponse
from .endpoint import base_url_of, endpoint_url
from .failures import ErrorBody, error_in, failure_for, fault_for_status, one_line, read_error
from .json_values import ProtocolViolation, decode_json, object_at
from .params import ModelParams, parse_model_params
from .protocol import Reply, WireProtocol
from .retry import (
    Answered,
    Fault,
    FaultKind,
    GaveUp,
    Surroundings,
    call_with_retries,
    policy_of,
    retry_after_seconds,
)
from .transport import BodyTooLargeError, HttpAnswer, connection_reason, is_permanent, open_client, post_json

Log = logging.Logger | logging.LoggerAdapter[logging.Logger]

_FAILED_STATUS = {"rate_limit_exceeded": 429, "server_error": 500}
"""Errors that the responses protocol reports inside an answer with status 200."""


class HttpModelClient(ModelClient):
    """Made by :func:`~.factory.create_model_client`."""

    def __init__(
        self,
        spec: ModelSpec,
        protocol: WireProtocol,
        api_key: str,
        *,
        deadline: float | None,
        uncharged: Callable[[float], float] | None,
        phase: IssuePhase,
        log: Log,
        surroundings: Surroundings | None,
    ) -> None:
        self.model = spec.id
        self.url = endpoint_url(base_url_of(spec, protocol.name), protocol.name)
        self._protocol = protocol
        self._params = parse_model_params(spec)
        self._key = _Key(api_key)
        self._deadline = deadline
        self._uncharged = uncharged
        self._phase = phase
        self._log = log
        self._surroundings = surroundings
        self._http = open_client(self.url, protocol.headers(api_key))

    def __repr__(self) -> str:
        return f"HttpModelClient({self.model!r}, {self._protocol.name.value}, {str(self.url)!r})"

    async def generate(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolDefinition] = (),
        params: ModelParams | None = None,
    ) -> ModelResponse:
        params = params or self._params
        payload = self._payload(messages, tools, params)

        async def try_once(timeout_seconds: float) -> ModelResponse | Fault:
            return await self._try_once(payload, timeout_seconds)

        try:
            answered = await call_with_retries(
                try_once,
                policy_of(params),
                deadline=self._deadline,
                uncharged=self._wait_uncharged,
                on_retry=self._say_retry,
                surroundings=self._surroundings,
            )
        except GaveUp as error:
            raise failure_for(error.faults, self.url.host, self._phase) from None
        return _with_http_facts(answered)

    async def close(self) -> None:
        await self._http.aclose()

    def _payload(
        self, messages: Sequence[Message], tools: Sequence[ToolDefinition], params: ModelParams
    ) -> bytes:
        try:
            body = self._protocol.body(self.model, messages, tools, params, self.url.host)
        except ProtocolViolation as violation:
            raise StageFailure.fatal(
                self._phase, IssueCode.TASK_INPUT_INVALID, f"a message cannot be sent: {violation}"
            ) from None
        # What cannot be encoded (a lone surrogate in a dataset) is sent as "?", not refused.
        return json.dumps(body, ensure_ascii=False).encode("utf-8", errors="replace")

    async def _try_once(self, payload: bytes, timeout_seconds: float) -> ModelResponse | Fault:
        try:
            async with asyncio.timeout(timeout_seconds):
                answer = await post_json(self._http, self.url, payload)
        except TimeoutError:
            return Fault(FaultKind.TIMEOUT, f"nothing within {timeout_seconds:.0f} s")
        except BodyTooLargeError as error:
            return Fault(FaultKind.MALFORMED, str(error), transient=False)
        except httpx.DecodingError as error:
            return Fault(FaultKind.MALFORMED, one_line(str(error), self._key.value))
        except httpx.TransportError as error:
            reason = one_line(connection_reason(error), self._key.value)
            return Fault(FaultKind.CONNECTION, reason, transient=not is_permanent(error))
        return self._read(answer)

    def _read(self, answer: HttpAnswer) -> ModelResponse | Fault:
        wait = retry_after_seconds(answer.headers, time.time())
        if not 200 <= answer.status <= 299:
            return fault_for_status(answer.status, self._refusal(answer), wait, self._key.value)
        try:
            body = object_at(decode_json(answer.body), "the answer")
            error = error_in(body) if body.get("error") else None
            status = error and (error.status or _FAILED_STATUS.get(error.code))
            if error and status:
                return fault_for_status(status, error, wait, self._key.value)
            return _response(self._protocol.read(body), self.model)
        except ProtocolViolation as violation:
            said = read_error(answer.body).message
            detail = one_line(f"{violation}; it begins: {said}", self._key.value)
            return Fault(FaultKind.MALFORMED, detail, status=answer.status)

    def _refusal(self, answer: HttpAnswer) -> ErrorBody:
        if 300 <= answer.status <= 399:
            return ErrorBody(
                f"redirected to {answer.headers.get('location', 'nowhere')}; is model.base_url right?"
            )
        return read_error(answer.body)

    def _wait_uncharged(self, seconds: float) -> float:
        granted = self._uncharged(seconds) if self._uncharged else 0.0
        if self._deadline is not None:
            self._deadline += granted  # of the calls that follow, too
        return granted

    def _say_retry(self, fault: Fault, tries: int, delay: float) -> None:
        what = f"HTTP {fault.status}" if fault.status else fault.kind.value
        self._log.warning(
            "model call to %s failed (%s: %s), try %d follows in %.1f s",
            self.url.host,
            what,
            fault.detail,
            tries + 1,
            delay,
        )


class _Key:
    """Keeps a key out of every repr, also of the frames that a traceback shows."""

    __slots__ = ("value",)

    def __init__(self, value: str) -> None:
        self.value = value

    def __repr__(self) -> str:
        return "***"


def _response(reply: Reply, model: str) -> ModelResponse:
    try:
        return ModelResponse(
            content=reply.content,
            reasoning=reply.reasoning,
            tool_calls=reply.tool_calls,
            reasoning_parts=reply.reasoning_parts,
            usage=reply.usage,
            stop_reason=reply.stop_reason,
            model=reply.model or model,
            response_id=reply.response_id or "",
            cost_usd=reply.cost_usd,
            extra=reply.extra,
        )
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise ProtocolViolation(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None


def _with_http_facts(answered: Answered[ModelResponse]) -> ModelResponse:
    facts = {"attempts": answered.tries, "latency_seconds": answered.latency_seconds}
    return answered.answer.model_copy(update=facts)
