"""Requests are held against what Modal's SDK sends, and refused when they say more."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable
from typing import Any

from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet
from grpclib import GRPCError, Status

TOKEN_ID, TOKEN_SECRET = "ak-fake-token-id", "as-fake-token-secret"


def refusal(status: Status, message: str, *details: Message) -> GRPCError:
    """An answer as Modal gives it."""
    return GRPCError(status, message, list(details) or None)


def invalid(message: str) -> GRPCError:
    """The refusal of something that Modal does not do."""
    return refusal(Status.INVALID_ARGUMENT, message)


def known(message: Message, *fields: str) -> None:
    """Refuse a message with a field that is not among ``fields``: this stand-in would not do what it says."""
    if len(UnknownFieldSet(message)):
        raise invalid(f"{message.DESCRIPTOR.name} has a field that nobody knows")
    for descriptor, _ in message.ListFields():
        if descriptor.name not in fields:
            raise invalid(f"{message.DESCRIPTOR.name}.{descriptor.name} is not known here")


def token(kind: str, about: str) -> str:
    """A token as the SDK expects it, good for a while."""

    def part(value: dict[str, Any]) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    claims = {"kind": kind, "about": about, "exp": int(time.time()) + 3600}
    return f"{part({'alg': 'none'})}.{part(claims)}.signature"


def require_account(metadata: Any) -> None:
    """Refuse a call without the token of the account."""
    if (metadata.get("x-modal-token-id"), metadata.get("x-modal-token-secret")) != (TOKEN_ID, TOKEN_SECRET):
        raise refusal(Status.UNAUTHENTICATED, "Token validation failed.")
    if not metadata.get("x-modal-client-version"):
        raise refusal(Status.FAILED_PRECONDITION, "the client does not tell its version")


def require_token(given: str | None, kind: str, about: str) -> None:
    """Refuse a call without the token that an earlier call has answered with."""
    try:
        part = (given or "").split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (IndexError, ValueError):
        raise refusal(Status.UNAUTHENTICATED, f"the {kind} token is missing or broken") from None
    if (claims["kind"], claims["about"]) != (kind, about) or claims["exp"] < time.time():
        raise refusal(Status.UNAUTHENTICATED, f"the {kind} token is for something else")


def with_all_methods(base: type) -> type:
    """A class of all calls of a service, each of which is refused until a subclass does something."""

    def unimplemented(name: str) -> Callable[..., Any]:
        async def method(self: object, stream: Any) -> None:
            raise refusal(Status.UNIMPLEMENTED, f"this stand-in has no {name}")

        return method

    names = base.__abstractmethods__  # type: ignore[attr-defined]
    return type(base.__name__, (base,), {name: unimplemented(name) for name in names})
