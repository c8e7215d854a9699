"""Making a model client: over HTTP, from a script, with or without a recorder."""

from __future__ import annotations

import logging
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

from ...contracts.context import AttemptContext
from ...contracts.errors import ConfigurationError, StageFailure
from ...contracts.issues import IssueCode, IssuePhase
from ...contracts.request import ModelProtocol, ModelSpec
from .client import ModelClient
from .endpoint import base_url_of, choose_protocol, endpoint_url
from .http_client import HttpModelClient, Log
from .params import ModelParams, parse_model_params
from .protocols import PROTOCOLS
from .retry import Surroundings
from .script_file import Conversation, read_script
from .scripted import RecordingClient, ScriptedClient

_DEMONSTRATION = "scripts/terminal_tasks.jsonl"
"""Answers for the built-in tasks of the benchmark ``terminal_tasks``."""


def create_model_client(
    spec: ModelSpec,
    api_key: str,
    *,
    deadline: float | None = None,
    uncharged: Callable[[float], float] | None = None,
    phase: IssuePhase = IssuePhase.RUN,
    log: Log | None = None,
    surroundings: Surroundings | None = None,
    conversation: Conversation | None = None,
) -> ModelClient:
    """A client for ``spec``; ``api_key`` is the resolved key, ``""`` for none.

    ``deadline`` is a Unix time that no try and no wait passes, but for waiting for a rate limit, when
    ``uncharged`` (``AttemptContext.wait_uncharged``) moves it; ``phase`` is put into failures;
    ``conversation`` tells a script or recorder whose calls these are. ``surroundings`` replaces
    clock, sleep and dice in tests. Raises ``ConfigurationError`` for parameters that cannot be sent
    and scripts that cannot be read, ``StageFailure`` for a key that cannot be sent.
    """
    protocol = choose_protocol(spec)
    params = parse_model_params(spec)
    if protocol is ModelProtocol.SCRIPTED:
        return ScriptedClient.from_file(script_of(params), conversation)
    api_key = api_key.strip()
    if not (api_key.isascii() and api_key.isprintable()):
        raise StageFailure.fatal(
            phase,
            IssueCode.MODEL_AUTHENTICATION,
            f"the API key of model {spec.id!r} holds line breaks or characters that no header can carry",
        )
    client = HttpModelClient(
        spec,
        PROTOCOLS[protocol](),
        api_key,
        deadline=deadline,
        uncharged=uncharged,
        phase=phase,
        log=log or logging.getLogger(__name__),
        surroundings=surroundings,
    )
    if params.record is None:
        return client
    return RecordingClient(client, Path(params.record), conversation, secret=api_key)


def client_for_attempt(
    spec: ModelSpec, context: AttemptContext, *, answered: int = 0, deadline: float | None = None
) -> ModelClient:
    """A client for the calls of one attempt; ``answered`` of them were made by an earlier worker.

    ``deadline`` (Unix seconds) may be earlier than that of the phase, never later.
    """
    limits = [limit for limit in (deadline, context.deadline) if limit is not None]
    return create_model_client(
        spec,
        context.resolve_secret(spec.api_key),
        deadline=min(limits, default=None),
        uncharged=context.wait_uncharged,
        log=context.log,
        conversation=Conversation.of(context, answered),
    )


def model_problem(spec: ModelSpec) -> str | None:
    """Why no client can be made for ``spec``, or ``None``; for ``Harness.supports``."""
    try:
        protocol = choose_protocol(spec)
        params = parse_model_params(spec)
        if protocol is ModelProtocol.SCRIPTED:
            read_script(script_of(params))
            return None
        endpoint_url(base_url_of(spec, protocol), protocol)
    except ConfigurationError as error:
        return str(error)
    if params.script is not None:
        return "model.params.script belongs to protocol scripted"
    if params.record is not None and not Path(params.record).parent.is_dir():
        return f"model.params.record: there is no folder {Path(params.record).parent}"
    if not spec.base_url and not spec.api_key:
        return (
            f"model {spec.id!r} has neither base_url nor api_key: "
            f"name an endpoint, or give a key for {base_url_of(spec, protocol)}"
        )
    return None


def script_of(params: ModelParams) -> Path:
    """The script file: the given one, else the answers for the built-in tasks."""
    if params.script is not None:
        return Path(params.script)
    return Path(str(files(__package__) / _DEMONSTRATION))
