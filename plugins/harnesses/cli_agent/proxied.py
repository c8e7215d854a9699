"""The model proxy of one execution: an address that outlives its worker, and the calls so far."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hashlib
import hmac
import time
from collections.abc import AsyncIterator, Iterator

from pydantic import Field, ValidationError

from ....contracts.base import Contract
from ....contracts.context import AttemptContext
from ....contracts.environment import EnvironmentSession
from ....contracts.errors import StageFailure
from ....contracts.issues import IssuePhase
from ....contracts.request import ModelSpec
from ...model_proxy import LOOPBACK, ModelProxy, ModelProxyParams, ProxiedCall

ADDRESS_TAKEN = "cli_agent.proxy_address_taken"
ADDRESS_UNUSABLE = "cli_agent.proxy_address_unusable"
_FIRST_PORT, _PORTS, _TRIES = 20_000, 12_000, 16
"""Below the ports that systems give to outgoing connections."""
_PATIENCE_SECONDS = 30.0
"""How long a worker that takes over waits for the one before to let go of the port."""


class ProxyState(Contract):
    """As it is checkpointed. The token is not in it: it follows from the key and the environment's id."""

    port: int = Field(ge=1, le=65535)
    calls: list[ProxiedCall] = Field(default_factory=list)


def token_of(api_key: str, environment_id: str) -> str:
    """What the agent gets in place of the key: the same on every worker, of no use anywhere else."""
    digest = hmac.new((api_key or "no key").encode(), environment_id.encode(), hashlib.sha256)
    return f"ac-{digest.hexdigest()}"


def candidate_ports(environment_id: str) -> Iterator[int]:
    """Ports to try, the same for the same environment."""
    first = int.from_bytes(hashlib.sha256(environment_id.encode()).digest()[:4])
    for number in range(_TRIES):
        yield _FIRST_PORT + (first + number * 97) % _PORTS


async def proxy_state(context: AttemptContext) -> ProxyState | None:
    """What an earlier worker left of this execution's proxy."""
    saved = await context.load_checkpoint()
    if saved is None:
        return None
    try:
        return ProxyState.model_validate(saved)
    except ValidationError:
        context.log.warning("the checkpoint is of another version and is not used")
        return None


@contextlib.asynccontextmanager
async def open_proxy(
    spec: ModelSpec, params: ModelProxyParams, env: EnvironmentSession, context: AttemptContext
) -> AsyncIterator[tuple[ModelProxy, ModelSpec, str]]:
    """The proxy, and the model as the agent sees it: its address and its token.

    Raises ``StageFailure`` when the address that the agent knows is taken by somebody else, or is none of
    this machine.
    """
    host, params = await _addressed(params, env)
    environment_id = env.handle.id
    key = context.resolve_secret(spec.api_key)
    found = await proxy_state(context)
    calls = found.calls if found else []
    ports = [found.port] if found else list(candidate_ports(environment_id))
    give_up_at = time.monotonic() + _PATIENCE_SECONDS
    token = token_of(key, environment_id)
    while True:
        for port in ports:
            state = ProxyState(port=port, calls=calls)
            state.calls = calls  # one list: the proxy adds to what is saved

            async def save(state: ProxyState = state) -> None:
                await context.save_checkpoint(state.model_dump(mode="json", exclude_defaults=True))

            proxy = ModelProxy(spec, key, token, params, port=port, calls=calls, on_call=save)
            try:
                await proxy.__aenter__()
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise _unusable(params, error) from None
                continue
            try:
                await save()
                seen = spec.model_copy(update={"base_url": f"http://{host}:{port}/v1", "api_key": ""})
                yield proxy, seen, token
            finally:
                await proxy.__aexit__(None, None, None)
            return
        if found is None or time.monotonic() > give_up_at:
            message = f"the model proxy cannot listen on {params.bind}: {len(ports)} ports are taken"
            raise StageFailure.fatal(IssuePhase.RUN, ADDRESS_TAKEN, message)
        await asyncio.sleep(0.2)


async def _addressed(params: ModelProxyParams, env: EnvironmentSession) -> tuple[str, ModelProxyParams]:
    """The host that the agent calls, and the parameters with the address to listen on."""
    found = None if params.host and params.bind else await env.worker_address()
    host, bind = (
        params.host or (found.host if found else ""),
        params.bind or (found.bind if found else LOOPBACK),
    )
    if not host:  # preflight has looked, so that was said of another worker's machine
        message = "the environment does not say how it reaches this worker's machine; give proxy.host"
        raise StageFailure.fatal(IssuePhase.RUN, ADDRESS_UNUSABLE, message)
    return host, params.model_copy(update={"bind": bind})


def _unusable(params: ModelProxyParams, error: OSError) -> StageFailure:
    message = (
        f"the model proxy cannot listen on {params.bind}: {error.strerror or error}; give proxy.host and "
        "proxy.bind, under which environments reach this machine"
    )
    return StageFailure.fatal(IssuePhase.RUN, ADDRESS_UNUSABLE, message)
