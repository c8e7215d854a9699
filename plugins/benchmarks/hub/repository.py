"""Data sets as they are kept below ``$AGENTCOMPASS_HOME/datasets/hub/``, by commit.

Commits never change, and every file is verified by the digest that the hub has told, whenever it is used.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

from pydantic import ValidationError

from ....contracts.errors import DatasetError
from .client import DEFAULT_ENDPOINT, HubClient, HubUnreachableError
from .listing import COMMIT, HubFile, Listing

_log = logging.getLogger(__name__)
_OFFLINE_VALUES = {"1", "ON", "YES", "TRUE"}


class HubRepository:
    """A data set at one revision; nothing is fetched before it is needed. Everything blocks."""

    def __init__(self, dataset: str, revision: str, token_variable: str) -> None:
        endpoint = _endpoint()
        self.dataset = dataset
        self._revision = revision
        self._client = HubClient(dataset, endpoint, token_variable)
        home = Path(os.environ.get("AGENTCOMPASS_HOME") or "~/.agentcompass").expanduser().absolute()
        place = hashlib.sha256(endpoint.encode()).hexdigest()[:8]
        self._folder = home / "datasets" / "hub" / f"{dataset.replace('/', '--')}-{place}"

    def listing(self, *, newest: bool) -> Listing:
        """What is there. ``newest`` asks what a branch means now; else what it meant last is good enough.

        Without a network it is what it meant last, too, with a warning. Raises ``DatasetError``.
        """
        kept = self._kept_listing()
        if kept is not None and (not newest or COMMIT.match(self._revision)):
            return kept
        try:
            if os.environ.get("HF_HUB_OFFLINE", "").upper() in _OFFLINE_VALUES:
                raise HubUnreachableError(
                    f"data set {self.dataset!r} is not on this machine, and HF_HUB_OFFLINE is set"
                )
            found = self._client.listing(self._revision)
        except HubUnreachableError as error:
            if kept is None:
                raise DatasetError(
                    f"{error}; without a network, fetch it once on a machine that has one, or give a file as 'path'"
                ) from error
            _log.warning("%s; taking its commit %s, which was fetched before", error, kept.commit[:12])
            return kept
        self._keep(found)
        return found

    def file(self, listing: Listing, path: str) -> Path:
        """The local copy of a file, fetched if need be. Raises ``DatasetError``."""
        wanted = listing.find(path)
        if wanted is None:
            raise DatasetError(f"data set {self.dataset!r} has no file {path!r}")
        local = self._folder / listing.commit / "files" / path
        if local.is_file():
            if wanted.is_content_of(local):
                return local
            _log.warning("%s has been changed; fetching it again", local)
        _replace(local, lambda target: self._fetch(listing.commit, wanted, target))
        return local

    def _fetch(self, commit: str, wanted: HubFile, target: Path) -> None:
        self._client.download(commit, wanted, target)
        if not wanted.is_content_of(target):
            raise DatasetError(
                f"{wanted.path!r} of data set {self.dataset!r} is not what the hub has told: its digest differs"
            )

    @property
    def _reference(self) -> Path:
        return self._folder / "refs" / quote(self._revision, safe="")

    def _kept_listing(self) -> Listing | None:
        """As it was fetched last; ``None`` when it never was, or is damaged."""
        try:
            commit = self._revision
            if not COMMIT.match(commit):
                commit = self._reference.read_text(encoding="ascii").strip()
            if not COMMIT.match(commit):
                return None
            data = (self._folder / commit / "listing.json").read_bytes()
            return Listing.model_validate_json(data)
        except (FileNotFoundError, UnicodeDecodeError, ValidationError):
            return None

    def _keep(self, found: Listing) -> None:
        data = found.model_dump_json(by_alias=True).encode()
        _replace(self._folder / found.commit / "listing.json", lambda target: _write(target, data))
        if not COMMIT.match(self._revision):
            _replace(self._reference, lambda target: _write(target, found.commit.encode()))


def _endpoint() -> str:
    """The address of the hub. Raises ``DatasetError``."""
    endpoint = os.environ.get("HF_ENDPOINT", "").strip().rstrip("/") or DEFAULT_ENDPOINT
    if not endpoint.startswith(("https://", "http://")):
        raise DatasetError("the variable HF_ENDPOINT must begin with https:// or http://")
    if "@" in endpoint:
        raise DatasetError("the variable HF_ENDPOINT holds credentials, which would be shown; use HF_TOKEN")
    return endpoint


def _write(target: Path, data: bytes) -> None:
    target.write_bytes(data)


def _replace(file: Path, make: Callable[[Path], None]) -> None:
    """Put what ``make`` writes in the place of ``file``, at once and as a whole; several workers may do so."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=".fetching.", dir=file.parent))
        try:
            make(folder / "content")
            (folder / "content").replace(file)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    except OSError as error:
        raise DatasetError(f"{file} cannot be written: {error.strerror or error}") from error
