"""``agentcompass codec-server``: let the Temporal UI read what is encrypted."""

from __future__ import annotations

from typing import Annotated

import typer

DEFAULT_PORT = 8081
TOKEN_VARIABLE = "AGENTCOMPASS_CODEC_TOKEN"


def codec_server(
    origin: Annotated[
        str,
        typer.Option(
            "--origin", metavar="URL", help="Origin of the Temporal UI, the only one allowed to ask."
        ),
    ],
    host: Annotated[
        str, typer.Option("--host", metavar="ADDRESS", help="Address to listen on.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", metavar="N", min=0, max=65535, help="Port; 0 for any that is free.")
    ] = DEFAULT_PORT,
) -> int:
    """Decrypt payloads for the Temporal UI and the `temporal` command line.

    Needs the payload keys of the workers (AGENTCOMPASS_PAYLOAD_KEY or AGENTCOMPASS_PAYLOAD_KEYS) and a token
    that callers have to show: AGENTCOMPASS_CODEC_TOKEN, as file:/path, env:NAME or itself. Name it to the UI as
    codec endpoint, with credentials included, and log in once at /login. Ends at SIGTERM.
    """
    import os

    from ...activities.encryption import KEY_VARIABLE, KEYS_VARIABLE, encryption_codec
    from ...activities.encryption.keys import configured_secret
    from ...contracts.errors import ConfigurationError
    from ..serving.codec_server import CodecServer, CodecService
    from ..serving.signals import serve_until_signal

    codec = encryption_codec()
    if codec is None:
        raise ConfigurationError(f"there is nothing to decrypt with: set {KEY_VARIABLE} or {KEYS_VARIABLE}")
    given = os.environ.get(TOKEN_VARIABLE, "").strip()
    if not given:
        raise ConfigurationError(f"{TOKEN_VARIABLE} is not set; it is the token that callers have to show")
    token = configured_secret(given, os.environ, TOKEN_VARIABLE)
    try:
        server = CodecServer(host, port, CodecService(codec, origin.rstrip("/"), token))
    except OSError as error:
        raise ConfigurationError(f"cannot listen on {host}:{port}: {error.strerror or error}") from None
    shown = f"[{host}]" if ":" in host else host
    print(f"Codec server: http://{shown}:{server.server_address[1]} for {origin}", flush=True)
    serve_until_signal(server)
    return 0
