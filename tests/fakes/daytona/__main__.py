"""A stand-in of Daytona on loopback: ``python tests/fakes/daytona FOLDER``. Prints its address as JSON.

Ends, with all its sandboxes, when its standard input does.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from aiohttp import web

sys.path.insert(1, str(Path(__file__).resolve().parent.parent / "shared"))

from control import Control  # needs what the line above finds
from toolbox import ToolboxProxy


async def main() -> None:
    """Serve until nobody wants it any more."""
    control = Control(Path(sys.argv[1]))
    application = web.Application(client_max_size=16 * 1024**2, middlewares=[control.guard])
    application.add_routes([*control.routes(), *ToolboxProxy(control).routes()])
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    control.origin = f"http://127.0.0.1:{port}"
    print(json.dumps({"url": f"{control.origin}/api"}), flush=True)
    await asyncio.to_thread(sys.stdin.read)
    control.end()
    await runner.cleanup()


asyncio.run(main())
