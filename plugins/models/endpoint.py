"""Which protocol a model speaks, and under which URL it is called."""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Collection
from urllib.parse import urlsplit

import httpx

from ...contracts.errors import ConfigurationError
from ...contracts.request import ModelProtocol, ModelSpec

OPENAI_BASE_URL = "https://api.openai.com/v1"
ANTHROPIC_BASE_URL = "https://api.anthropic.com"
OPENAI_HOST = "api.openai.com"
ANTHROPIC_HOST = "api.anthropic.com"

_PATHS = {
    ModelProtocol.OPENAI_CHAT: "/chat/completions",
    ModelProtocol.OPENAI_RESPONSES: "/responses",
    ModelProtocol.ANTHROPIC: "/messages",
}
_DEFAULT_PORTS = {"http": 80, "https": 443}


def choose_protocol(
    spec: ModelSpec, supported: Collection[ModelProtocol] = frozenset(ModelProtocol)
) -> ModelProtocol:
    """The first protocol in the model's order of preference that is ``supported``.

    Without a preference: answers from a file for the model ``scripted`` without a base URL, Anthropic's for ``api.anthropic.com`` and for ``claude…`` without a base
    URL, else ``openai-chat``. Raises ``ConfigurationError`` when none fits.
    """
    wanted = [spec.api_protocol] if isinstance(spec.api_protocol, str) else spec.api_protocol
    wanted = [name for name in wanted if name] or [_guess(spec)]
    for name in wanted:
        if ModelProtocol(name) in supported:
            return ModelProtocol(name)
    known = ", ".join(sorted(supported))
    raise ConfigurationError(
        f"model {spec.id!r} speaks {', '.join(map(str, wanted))}; supported here: {known}"
    )


def _guess(spec: ModelSpec) -> ModelProtocol:
    if spec.base_url:
        speaks_anthropic = _parse_url(spec.base_url).host == ANTHROPIC_HOST
    elif spec.id == ModelProtocol.SCRIPTED:
        return ModelProtocol.SCRIPTED
    else:
        speaks_anthropic = spec.id.lower().startswith("claude")
    return ModelProtocol.ANTHROPIC if speaks_anthropic else ModelProtocol.OPENAI_CHAT


def base_url_of(spec: ModelSpec, protocol: ModelProtocol) -> str:
    """The model's base URL, or that of the protocol's vendor."""
    default = ANTHROPIC_BASE_URL if protocol is ModelProtocol.ANTHROPIC else OPENAI_BASE_URL
    return spec.base_url or default


def endpoint_id(base_url: str, account: str) -> str:
    """A name for an endpoint with an account: the host, and a digest of all that tells two of them apart.

    ``account`` is the *reference* of the key (``env:NAME``), never the key. The protocol does not count: what a host
    refuses to a key it refuses in every protocol. Scheme, host, port, path (without what protocols append) and query do.
    """
    parts = urlsplit(base_url.strip())
    path = parts.path.rstrip("/")
    for ending in (*_PATHS.values(), "/v1"):  # an account does not depend on it
        path = path.removesuffix(ending).rstrip("/")
    scheme, host = parts.scheme.lower(), (parts.hostname or "").lower().rstrip(".")
    try:
        port = parts.port or _DEFAULT_PORTS.get(scheme, 0)
    except ValueError:  # no number, or too large a one: whoever calls it says so
        port = 0
    told = "\0".join((scheme, host, str(port), path, parts.query, account))
    return f"{host}#{hashlib.sha256(told.encode()).hexdigest()[:16]}"


def endpoint_of(spec: ModelSpec) -> str:
    """The name of the model's endpoint with its account (``contracts/endpoints.py``).

    Empty for answers from a file, and for a model of which neither is given: whoever calls it knows where. Raises
    ``ConfigurationError`` for a protocol that there is not.
    """
    protocol = choose_protocol(spec)
    if protocol is ModelProtocol.SCRIPTED or not (spec.base_url or spec.api_key):
        return ""
    return endpoint_id(base_url_of(spec, protocol), spec.api_key)


def endpoint_url(base_url: str, protocol: ModelProtocol) -> httpx.URL:
    """The URL to post to. A query in ``base_url`` is kept.

    A base URL that is the complete endpoint already is taken as it is. Otherwise OpenAI clients
    append to what they are given, which by custom ends in ``/v1``, so a bare host gets ``/v1``;
    Anthropic clients append ``/v1/messages``, so a ``/v1`` that is there is not repeated.
    """
    url = _parse_url(base_url)
    path = url.path.rstrip("/")
    if path.endswith(_PATHS[protocol]):
        return url.copy_with(path=path)
    if protocol is ModelProtocol.ANTHROPIC:
        path = path.removesuffix("/v1") + "/v1"
    return url.copy_with(path=(path or "/v1") + _PATHS[protocol])


def _parse_url(base_url: str) -> httpx.URL:
    try:
        url = httpx.URL(base_url)
    except httpx.InvalidURL as error:
        raise ConfigurationError(f"model.base_url {base_url!r} cannot be used: {error}") from None
    # httpx lets these through, and the socket layer then raises errors of its own.
    if not 0 < (url.port or 80) < 65536 or any(len(label) > 63 for label in url.host.split(".")):
        raise ConfigurationError(f"model.base_url {base_url!r} has no usable host and port")
    return url


def is_loopback(host: str) -> bool:
    """True for ``localhost`` and loopback addresses, which no proxy could reach for us."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
