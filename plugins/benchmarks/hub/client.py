"""Calls to the hub over HTTP. Everything blocks."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import httpx
from pydantic import ValidationError

from ....contracts.errors import DatasetError
from ...models.endpoint import is_loopback
from ...models.retry import retry_after_seconds
from ...models.transport import Credentials
from ...params import describe_validation_error
from .listing import HubFile, Listing

DEFAULT_ENDPOINT = "https://huggingface.co"
LARGEST_FILE_BYTES = 4 * 1024**3
_TIMEOUT = httpx.Timeout(60.0, connect=15.0)
_TRIES = 3
FIRST_PAUSE_SECONDS = 2.0
_LONGEST_PAUSE_SECONDS = 60.0


class HubUnreachableError(DatasetError):
    """The hub does not answer; what was fetched before can still be used."""


@dataclass(frozen=True)
class HubClient:
    """One data set at one hub."""

    dataset: str
    endpoint: str
    token_variable: str
    """The variable of this machine with the token; without it, what is public can be read."""

    def listing(self, revision: str) -> Listing:
        """The files at a branch, tag or commit. Raises ``DatasetError``."""
        url = f"{self.endpoint}/api/datasets/{quote(self.dataset)}/revision/{quote(revision, safe='')}?blobs=true"
        with self._opened() as http:
            response = self._answer(http, url, revision)
            try:
                return Listing.model_validate(response.json())
            except ValidationError as error:
                place = f"what {self.endpoint} says of data set {self.dataset!r}"
                raise DatasetError(describe_validation_error(error, Listing, place)) from None
            except ValueError:
                message = f"{self.endpoint} is no hub of data sets: its answer is not JSON (HF_ENDPOINT)"
                raise DatasetError(message) from None

    def download(self, commit: str, file: HubFile, target: Path) -> None:
        """Write the content of ``file`` to ``target``; it is not verified here. Raises ``DatasetError``."""
        size = LARGEST_FILE_BYTES if file.bytes_count is None else file.bytes_count
        if size > LARGEST_FILE_BYTES:
            raise DatasetError(f"{file.path!r} of data set {self.dataset!r} is too large: {size} bytes")
        url = f"{self.endpoint}/datasets/{quote(self.dataset)}/resolve/{commit}/{quote(file.path)}"
        with self._opened() as http:
            self._answer(http, url, commit, target, size)

    def _opened(self) -> httpx.Client:
        """Redirections lead to other hosts for large files; those do not get the token."""
        headers = {"authorization": f"Bearer {token}"} if (token := self._token()) else {}
        local = is_loopback(httpx.URL(self.endpoint).host)
        try:
            return httpx.Client(
                auth=Credentials(headers), timeout=_TIMEOUT, follow_redirects=True, trust_env=not local
            )
        except (ImportError, ValueError) as error:  # a SOCKS proxy without its package, an odd proxy URL
            raise DatasetError(f"the proxy variables of the environment cannot be used: {error}") from None

    def _token(self) -> str:
        token = os.environ.get(self.token_variable, "").strip()
        if not all("!" <= character <= "~" for character in token):
            # An HTTP library would show it in its own message.
            raise DatasetError(f"the variable {self.token_variable} has blanks or control characters in it")
        return token

    def _answer(
        self, http: httpx.Client, url: str, revision: str, target: Path | None = None, most_bytes: int = 0
    ) -> httpx.Response:
        """A good answer; its body goes to ``target``, if given."""
        for number in range(1, _TRIES + 1):
            try:
                with http.stream("GET", url) as response:
                    if response.is_success and target is not None:
                        _save(response, target, most_bytes)
                    else:
                        response.read()
            except httpx.HTTPError as error:
                problem, pause = _reason(error), FIRST_PAUSE_SECONDS * number
            else:
                if response.is_success:
                    return response
                if response.status_code != 429 and response.status_code < 500:
                    raise DatasetError(self._refusal(response, revision))
                asked = retry_after_seconds(response.headers, time.time())
                pause = FIRST_PAUSE_SECONDS * number if asked is None else asked
                problem = f"HTTP {response.status_code}"
            if number < _TRIES:
                time.sleep(min(pause, _LONGEST_PAUSE_SECONDS))
        raise HubUnreachableError(
            f"data set {self.dataset!r} cannot be fetched from {self.endpoint}: {problem}"
        )

    def _refusal(self, response: httpx.Response, revision: str) -> str:
        """What to do about an answer; the hub names its reason in a header."""
        code, status = response.headers.get("x-error-code", ""), response.status_code
        variable = self.token_variable
        if code == "GatedRepo":
            page = f"{self.endpoint}/datasets/{self.dataset}"
            if self._token():
                return f"the token in {variable} may not read data set {self.dataset!r}: accept its terms at {page}"
            return (
                f"data set {self.dataset!r} is gated: accept its terms at {page}, and set {variable} to a token that "
                "may read it"
            )
        if code == "RevisionNotFound":
            return f"data set {self.dataset!r} has no revision {revision!r}"
        if code == "EntryNotFound":
            return f"data set {self.dataset!r} lacks the file {response.url.path.rpartition('/')[2]!r}"
        if code == "RepoNotFound" or status in (401, 404):
            # Of private ones the hub says the same as of those that are not there.
            known = (
                f"the token in {variable} may not read it" if self._token() else f"it is private ({variable})"
            )
            return f"{self.endpoint} has no data set {self.dataset!r}, or {known}"
        return f"{self.endpoint} refuses data set {self.dataset!r}: HTTP {status}"


def _save(response: httpx.Response, target: Path, most_bytes: int) -> None:
    written = 0
    with target.open("wb") as file:
        for piece in response.iter_bytes():
            written += len(piece)
            if written > most_bytes:
                raise DatasetError(
                    f"the hub sends more of a file than the {most_bytes} bytes that it may have"
                )
            file.write(piece)


def _reason(error: httpx.HTTPError) -> str:
    return str(error) or type(error).__name__
