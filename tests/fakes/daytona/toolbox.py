"""The proxy to the daemons of sandboxes, which checks what it lets through."""

from __future__ import annotations

import re
from urllib.parse import urlencode

import aiohttp
from aiohttp import web
from checking import answer, parsed, query, refusal
from control import Control
from daytona_toolbox_api_client import ExecuteRequest, ExecuteResponse


class ToolboxProxy:
    """Routes below ``/toolbox/SANDBOX``."""

    def __init__(self, control: Control) -> None:
        self._control = control

    def routes(self) -> list[web.RouteDef]:
        """All there are."""
        return [
            web.post("/toolbox/{sandbox}/process/execute", self._execute),
            web.post("/toolbox/{sandbox}/files/bulk-upload", self._upload),
            web.get("/toolbox/{sandbox}/files/download", self._download),
        ]

    def _daemon(self, request: web.Request) -> aiohttp.ClientSession:
        sandbox = self._control.sandboxes.get(request.match_info["sandbox"])
        if sandbox is None:
            raise refusal(404, "sandbox not found")
        if sandbox.state != "started":
            raise refusal(400, f"sandbox is not started: {sandbox.state}")
        connector = aiohttp.UnixConnector(str(sandbox.machine.socket))
        return aiohttp.ClientSession(
            "http://daemon", connector=connector, timeout=aiohttp.ClientTimeout(None)
        )

    async def _execute(self, request: web.Request) -> web.Response:
        query(request)
        wanted = await parsed(request, ExecuteRequest)
        document = wanted.model_dump(exclude={"additional_properties"})
        try:
            async with self._daemon(request) as daemon, daemon.post("/execute", json=document) as found:
                data = await found.json()
                if found.status != 200:
                    raise web.HTTPRequestTimeout(text='{"message": "command execution timeout"}')
        except aiohttp.ClientError:
            raise refusal(400, "the sandbox's daemon is gone") from None
        return answer(ExecuteResponse(exit_code=data["exitCode"], result=data["result"]))

    async def _upload(self, request: web.Request) -> web.Response:
        query(request)
        reader = await request.multipart()
        paths: dict[str, str] = {}
        while (part := await reader.next()) is not None:
            name = re.fullmatch(r"files\[(\d+)\]\.(path|file)", part.name or "")
            if not name:
                raise refusal(400, f"form field {part.name} should not exist")
            if name[2] == "path":
                paths[name[1]] = await part.text()
                continue
            if name[1] not in paths:
                raise refusal(400, "a file has to come after its path")
            target = urlencode({"path": paths.pop(name[1])})

            async def pieces(part=part):  # type: ignore[no-untyped-def]
                while piece := await part.read_chunk(65536):
                    yield piece

            async with self._daemon(request) as daemon, daemon.put(f"/file?{target}", data=pieces()) as found:
                if found.status != 200:
                    raise refusal(400, (await found.json())["message"])
        if paths:
            raise refusal(400, "a path without a file")
        return web.json_response({})

    async def _download(self, request: web.Request) -> web.StreamResponse:
        target = urlencode(query(request, "path"))
        async with self._daemon(request) as daemon, daemon.get(f"/file?{target}") as found:
            if found.status != 200:
                raise refusal(found.status, (await found.json())["message"])
            response = web.StreamResponse(headers={"Content-Length": found.headers["Content-Length"]})
            await response.prepare(request)
            async for piece in found.content.iter_chunked(65536):
                await response.write(piece)
            return response
