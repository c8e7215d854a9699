"""A stand-in of the Hugging Face hub on loopback: data sets of files, as its HTTP API gives them.

Large files are given by another host (``localhost``), as the real hub does. What is not part of the API is noted as
a violation.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

TOKEN = "hf_canary_0123456789abcdef"


@dataclass
class Repository:
    """A data set; ``large`` files are in large-file storage."""

    files: dict[str, bytes]
    large: tuple[str, ...] = ()
    gated: bool = False
    branches: tuple[str, ...] = ("main",)

    @property
    def commit(self) -> str:
        """Changes with the content."""
        digest = hashlib.sha1()
        for name, data in sorted(self.files.items()):
            digest.update(name.encode() + b"\0" + data)
        return digest.hexdigest()

    def sibling(self, path: str) -> dict[str, Any]:
        """As the API describes a file."""
        data = self.files[path]
        content = b"pointer of " + path.encode() if path in self.large else data
        blob = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
        found: dict[str, Any] = {"rfilename": path, "blobId": blob, "size": len(data)}
        if path in self.large:
            sha256 = hashlib.sha256(data).hexdigest()
            found["lfs"] = {"sha256": sha256, "size": len(data), "pointerSize": 134}
        return found


@dataclass
class FakeHub:
    """A running stand-in."""

    url: str
    elsewhere: str
    repositories: dict[str, Repository] = field(default_factory=dict)
    renamed: dict[str, str] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    answers: list[int] = field(default_factory=list)
    """Status codes of the next answers, whatever is asked; 0 cuts the connection."""
    spoiled: set[str] = field(default_factory=set)
    """Paths whose content arrives changed."""
    has_more: bool = False
    """It is asked for other things than data sets, too, by somebody else's client, and has none of them."""


class _Handler(BaseHTTPRequestHandler):
    hub: FakeHub

    def do_GET(self) -> None:
        self._handle()

    def do_HEAD(self) -> None:
        self._handle()

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing on the terminal."""

    def _handle(self) -> None:
        hub, parts = self.hub, urlsplit(self.path)
        hub.requests.append(f"{self.command} {self.path}")
        if hub.answers:
            status = hub.answers.pop(0)
            if status == 0:
                self.close_connection = True
                return
            self._send(status, b"", {"Retry-After": "0"})
            return
        words = [unquote(word) for word in parts.path.strip("/").split("/")]
        if words[0] == "elsewhere":
            self._send_elsewhere("/".join(words[1:3]), "/".join(words[3:]))
        elif words[:2] == ["api", "datasets"] and words[4:5] in ([], ["revision"]):
            self._send_listing("/".join(words[2:4]), (words[5:6] or ["main"])[0])
        elif words[:2] == ["api", "datasets"] and words[4:5] == ["tree"] and len(words) == 6:
            self._send_tree("/".join(words[2:4]), words[5])
        elif words[0] == "datasets" and words[3:4] == ["resolve"] and len(words) > 5:
            self._send_file("/".join(words[1:3]), words[4], "/".join(words[5:]))
        elif hub.has_more and "datasets" not in words:
            self._send(404, b"")
        else:
            hub.violations.append(self.path)
            self._send(400, b"no such route")

    def _repository(self, name: str, revision: str) -> Repository | None:
        """What the caller may read; else the refusal has been sent."""
        token = self.headers.get("authorization", "")
        if name in self.hub.renamed:
            where = self.path.replace(name, self.hub.renamed[name], 1)
            self._send(307, b"", {"Location": where})
            return None
        found = self.hub.repositories.get(name)
        if found is None:
            self._refuse(404 if token == f"Bearer {TOKEN}" else 401, "RepoNotFound", "Repository not found")
        elif found.gated and token != f"Bearer {TOKEN}":
            self._refuse(403 if token else 401, "GatedRepo", f"Access to dataset {name} is restricted.")
        elif revision not in (*found.branches, found.commit):
            self._refuse(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        else:
            return found
        return None

    def _send_listing(self, name: str, revision: str) -> None:
        found = self._repository(name, revision)
        if found is not None:
            siblings = [found.sibling(path) for path in sorted(found.files)]
            if "blobs=true" not in self.path.lower():
                siblings = [{"rfilename": item["rfilename"]} for item in siblings]
            about = {
                "id": name,
                "sha": found.commit,
                "private": False,
                "gated": "auto" if found.gated else False,
            }
            self._send(200, json.dumps({**about, "siblings": siblings}).encode(), _JSON)

    def _send_tree(self, name: str, revision: str) -> None:
        """The same for those who ask by folders; what they get is everything."""
        found = self._repository(name, revision)
        if found is not None:
            entries = []
            for about in map(found.sibling, sorted(found.files)):
                entry = {
                    "type": "file",
                    "path": about["rfilename"],
                    "oid": about["blobId"],
                    "size": about["size"],
                }
                if "lfs" in about:
                    large = about["lfs"]
                    entry["lfs"] = {
                        "oid": large["sha256"],
                        **{key: large[key] for key in ("size", "pointerSize")},
                    }
                entries.append(entry)
            self._send(200, json.dumps(entries).encode(), _JSON)

    def _send_file(self, name: str, revision: str, path: str) -> None:
        found = self._repository(name, revision)
        if found is None:
            return
        if path not in found.files:
            self._refuse(404, "EntryNotFound", "Entry not found")
            return
        about = found.sibling(path)
        headers = {"X-Repo-Commit": found.commit, "ETag": f'"{about["blobId"]}"'}
        if "lfs" in about:
            headers |= {"X-Linked-Size": str(about["size"]), "X-Linked-ETag": f'"{about["lfs"]["sha256"]}"'}
            self._send(302, b"", {**headers, "Location": f"{self.hub.elsewhere}/elsewhere/{name}/{path}"})
        else:
            self._send(200, self._content(found, path), headers)

    def _send_elsewhere(self, name: str, path: str) -> None:
        if "authorization" in self.headers:
            self.hub.violations.append(f"the token was sent to {self.headers['host']}")
        self._send(200, self._content(self.hub.repositories[name], path))

    def _content(self, found: Repository, path: str) -> bytes:
        data = found.files[path]
        return bytes([data[0] ^ 1]) + data[1:] if path in self.hub.spoiled else data

    def _refuse(self, status: int, code: str, message: str) -> None:
        headers = {"X-Error-Code": code, "X-Error-Message": message}
        self._send(status, json.dumps({"error": message}).encode(), _JSON | headers)

    def _send(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


_JSON = {"Content-Type": "application/json"}


@contextmanager
def running_hub() -> Iterator[FakeHub]:
    """A stand-in without data sets."""
    handler = type("Handler", (_Handler,), {})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    port = server.server_address[1]
    hub = FakeHub(f"http://127.0.0.1:{port}", f"http://localhost:{port}")
    handler.hub = hub  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
