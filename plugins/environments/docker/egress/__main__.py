"""``python3 -m egress serve | listen REQUEST | ask REQUEST | survey``; requests are JSON.

``serve`` is the proxy. ``listen`` runs in the network of a sandbox, makes a socket there and hands it to
the proxy: connections made to it are accepted outside, while the sandbox has no network at all.
"""

from __future__ import annotations

import importlib
import json
import os
import socket
import sys

from . import control


def survey() -> dict[str, list[str]]:
    """The files that this program needs: what it has loaded once it has done all that it does."""
    import asyncio

    from .proxy import Proxy

    async def exercise() -> None:
        await asyncio.get_running_loop().getaddrinfo("localhost", 80, type=socket.SOCK_STREAM)
        Proxy()

    asyncio.run(exercise())
    importlib.import_module("keeper.__main__")  # runs from the same image
    modules = list(sys.modules.values())
    files = {getattr(module, name, None) for module in modules for name in ("__file__", "__cached__")}
    with open("/proc/self/maps", encoding="utf-8") as stream:
        mapped = {line.split(maxsplit=5)[5].strip() for line in stream if line.count("/")}
    return {"modules": sorted(name for name in files if name), "mapped": sorted(mapped)}


def main() -> None:
    """Do what the first argument says; a short command does not load what only the proxy needs."""
    action = sys.argv[1]
    if action == "serve":
        import asyncio

        from .proxy import serve

        asyncio.run(serve())
    elif action == "survey":
        print(json.dumps(survey()))
    else:
        # The socket is in whatever network this process is in: that is all it shares with a sandbox.
        listening = control.listening_socket() if action == "listen" else None
        print(json.dumps(control.ask(json.loads(sys.argv[2]), listening)), flush=True)
        os._exit(0)


if __name__ == "__main__":
    main()
