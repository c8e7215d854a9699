"""A stand-in of Modal on loopback: ``python tests/fakes/modal FOLDER``. Prints where it is as JSON.

Ends, with all its sandboxes, when its standard input does.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from grpclib.server import Server
from modal._utils.grpc_utils import custom_detail_codec

sys.path.insert(1, str(Path(__file__).resolve().parent.parent / "shared"))

from account import Account  # needs what the line above finds
from control import Control
from desk import Desk
from router import Router


async def main() -> None:
    """Serve until nobody wants it any more."""
    account = Account(Path(sys.argv[1]))
    control = Control(account)
    server = Server([control, Router(account)], status_details_codec=custom_detail_codec)
    await server.start("127.0.0.1", 0)
    port = server._server.sockets[0].getsockname()[1]
    control.url = f"http://127.0.0.1:{port}"
    desk = await Desk(account).serve()
    print(json.dumps({"url": control.url, "desk": desk.sockets[0].getsockname()[1]}), flush=True)
    await asyncio.to_thread(sys.stdin.read)
    account.end_all()
    server.close()


asyncio.run(main())
