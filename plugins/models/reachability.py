"""Whether anything answers at a model's endpoint; asked before a launch starts."""

from __future__ import annotations

import asyncio

import httpx

from ...contracts.request import ModelProtocol, ModelSpec
from .endpoint import base_url_of, choose_protocol, endpoint_url
from .transport import connection_reason, open_client


async def check_reachable(spec: ModelSpec, timeout: float = 5.0) -> str | None:  # noqa: ASYNC109
    """``None`` when the endpoint answers HTTP in any way within ``timeout`` seconds, else one line.

    No key is sent and no tokens are spent: it is a GET to the URL that calls are posted to.
    """
    protocol = choose_protocol(spec)
    if protocol is ModelProtocol.SCRIPTED:
        return None  # a file; the harness says whether it can be read
    url = endpoint_url(base_url_of(spec, protocol), protocol)
    try:
        async with asyncio.timeout(timeout), open_client(url) as client, client.stream("GET", url):
            return None
    except TimeoutError:
        reason = f"no answer within {timeout:g} s"
    except httpx.TransportError as error:
        reason = connection_reason(error)
    return f"the endpoint of model {spec.id!r} cannot be reached at {url}: {reason}"
