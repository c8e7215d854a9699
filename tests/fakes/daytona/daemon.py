"""The daemon inside a sandbox, as its first process: runs commands and holds files. Standard library only."""

from __future__ import annotations

import json
import os
import shutil
import socket
import socketserver
import subprocess
import sys
import urllib.parse
from http.server import BaseHTTPRequestHandler


class Handler(BaseHTTPRequestHandler):
    """What the toolbox API of a sandbox comes down to."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """``/execute``: a command to its end, both streams in one, what a shell says of bytes that are no text lost."""
        wanted = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        process = subprocess.Popen(
            [shutil.which("sh") or "/bin/sh", "-c", wanted["command"]],
            cwd=wanted.get("cwd") or None,
            env=dict(os.environ) | (wanted.get("envs") or {}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        try:
            output, _ = process.communicate(timeout=wanted.get("timeout") or 10)
            code = process.returncode if process.returncode >= 0 else -1
        except subprocess.TimeoutExpired:
            process.kill()
            self._answer(408, {"message": "command execution timeout"})
            return
        self._answer(200, {"exitCode": code, "result": output.decode("utf-8", "replace")})

    def do_PUT(self) -> None:
        """A file of the body, which comes in chunks."""
        path = self._path()
        try:
            os.makedirs(os.path.dirname(path) or "/", exist_ok=True)
            with open(path, "wb") as target:
                while size := int(self.rfile.readline(), 16):
                    left = size
                    while left:
                        piece = self.rfile.read(min(left, 65536))
                        left -= len(piece)
                        target.write(piece)
                    self.rfile.readline()
                self.rfile.readline()
        except OSError as error:
            self.close_connection = True
            self._answer(400, {"message": str(error)})
            return
        self._answer(200, {})

    def do_GET(self) -> None:
        """A file."""
        path = self._path()
        if not os.path.isfile(path):
            self._answer(404 if not os.path.exists(path) else 400, {"message": "file not found"})
            return
        with open(path, "rb") as source:
            self.send_response(200)
            self.send_header("Content-Length", str(os.fstat(source.fileno()).st_size))
            self.end_headers()
            shutil.copyfileobj(source, self.wfile)

    def _path(self) -> str:
        return urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)["path"][0]

    def _answer(self, status: int, document: object) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""

    def address_string(self) -> str:
        """A Unix socket has none."""
        return "worker"


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """A thread for each call."""

    daemon_threads = True
    request_queue_size = 128
    address_family = socket.AF_UNIX


path = sys.argv[1]
server = Server(f"{path}.new", Handler)
os.rename(f"{path}.new", path)
server.serve_forever()
