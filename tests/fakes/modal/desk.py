"""Where tests ask what has been asked for, and for something to go wrong: a line of JSON each way."""

from __future__ import annotations

import asyncio
import json

from account import Account
from google.protobuf.json_format import MessageToDict


class Desk:
    """Beside the services, which know nothing of it."""

    def __init__(self, account: Account) -> None:
        self._account = account

    async def serve(self) -> asyncio.Server:
        """Listen on a port of loopback."""
        return await asyncio.start_server(self._answer, "127.0.0.1", 0)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = json.loads(await reader.readline())
        if ended := asked.pop("ended", None):
            # As Modal does at the end of a lifetime.
            await self._account.end(self._account.sandboxes[ended], timed_out=True)
        self._account.faults.change(asked)
        writer.write(json.dumps(self._seen()).encode() + b"\n")
        await writer.drain()
        writer.close()

    def _seen(self) -> dict[str, object]:
        running = [sandbox for sandbox in self._account.sandboxes.values() if not sandbox.result.status]
        return {
            "sandboxes": [sandbox.id for sandbox in running],
            "asked": [MessageToDict(sandbox.asked) for sandbox in running],
            "tags": [sandbox.tags for sandbox in running],
            "network": [MessageToDict(sandbox.network) for sandbox in running],
            "images": [MessageToDict(image.asked) for image in self._account.images.values()],
            "files": sorted(self._account.mounted_names),
            "requests": self._account.faults.requests,
        }
