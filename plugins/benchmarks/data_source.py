"""Where rows come from: a file on every worker, or a data set of the Hugging Face hub."""

from __future__ import annotations

import hashlib
import logging
from pathlib import Path, PurePosixPath
from typing import ClassVar, Protocol

from pydantic import Field, model_validator

from ...contracts.benchmark_params import BenchmarkParams
from ...contracts.component import LocalPath
from ...contracts.errors import DatasetError
from .hub import HubRepository, files_of_split
from .hub.listing import Listing
from .jsonl import NumberedRow, RowT
from .tables import read_rows

_log = logging.getLogger(__name__)
_CARD = "README.md"
_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)?$"

SPLIT = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"


class DatasetParams(BenchmarkParams):
    """One of ``path`` and ``dataset``; the other parameters go with ``dataset``."""

    default_dataset: ClassVar[str | None] = None
    """Taken where neither is given."""

    path: LocalPath | None = Field(default=None, min_length=1)
    """``.jsonl``, ``.jsonl.gz``, ``.json`` or ``.parquet``, on every worker."""
    dataset: str | None = Field(default=None, pattern=_NAME)
    """The id of a data set on the Hugging Face hub, as ``OWNER/NAME``."""
    revision: str = Field(default="main", pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]*$")
    """A branch, tag or commit of it; only a commit stays the same."""
    config: str | None = None
    """One of its configurations, where it has several."""
    split: str = Field(default="test", pattern=SPLIT)
    """Which of its rows."""
    files: list[str] | None = Field(default=None, min_length=1)
    """Patterns of its data files, for one whose card does not say which they are."""
    token_variable: str = Field(default="HF_TOKEN", pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    """The variable of the worker with a token for what is not public; the token itself is never a parameter."""

    @model_validator(mode="after")
    def _one_source(self) -> DatasetParams:
        if self.path is not None and self.dataset is not None:
            raise ValueError("give one of path and dataset, not both")
        if self.path is None and self.dataset is None and self.default_dataset is None:
            raise ValueError("give path, a file, or dataset, the name of one on the Hugging Face hub")
        return self


class DataSource(Protocol):
    """Rows, and files that lie beside them. Everything blocks."""

    def rows(self, model: type[RowT]) -> list[NumberedRow[RowT]]:
        """All of them. Raises ``DatasetError``."""

    def attached(self, name: str, sha256: str) -> bytes:
        """A file beside the rows, with that digest if there is one. Raises ``DatasetError`` or ``OSError``."""

    def digest(self, name: str) -> str:
        """The sha256 of such a file. Raises as ``attached``."""


def source_of(params: DatasetParams) -> DataSource:
    """The one that the parameters name."""
    if params.path is not None:
        return LocalSource(Path(params.path).expanduser())
    return HubSource(params)


class LocalSource:
    """A file, and its folder."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def rows(self, model: type[RowT]) -> list[NumberedRow[RowT]]:
        """Read the file."""
        return read_rows(self._path, model)

    def attached(self, name: str, sha256: str) -> bytes:
        """Whatever is there now."""
        del sha256
        return self._below(name).read_bytes()

    def digest(self, name: str) -> str:
        """Read it."""
        return _sha256(self._below(name))

    def _below(self, name: str) -> Path:
        """Raises ``PermissionError`` for one that a link leads out of the folder."""
        folder = self._path.parent.resolve()
        path = (folder / name).resolve()
        if not path.is_relative_to(folder):
            raise PermissionError(1, "it leads out of the data set's folder")
        return path


class HubSource:
    """A data set of the hub; files beside the rows are fetched when they are wanted."""

    def __init__(self, params: DatasetParams) -> None:
        self._params = params
        self._name = str(params.dataset or params.default_dataset)
        self._repository = HubRepository(self._name, params.revision, params.token_variable)

    def rows(self, model: type[RowT]) -> list[NumberedRow[RowT]]:
        """As they are at the revision now."""
        listing = self._repository.listing(newest=True)
        paths = self._data_files(listing)
        found = [row for path in paths for row in read_rows(self._repository.file(listing, path), model)]
        _log.info("data set %s at commit %s: %d rows", self._name, listing.commit, len(found))
        return found

    def attached(self, name: str, sha256: str) -> bytes:
        """Beside the first data file. What this worker has fetched may be of an older commit than the rows."""
        listing = self._repository.listing(newest=False)
        known = listing.find(self._beside(listing, name))
        if known is None or not self._is(listing, known.path, sha256):
            listing = self._repository.listing(newest=True)
        return self._repository.file(listing, self._beside(listing, name)).read_bytes()

    def _is(self, listing: Listing, path: str, sha256: str) -> bool:
        return _sha256(self._repository.file(listing, path)) == sha256

    def digest(self, name: str) -> str:
        """As the hub tells it, where it does."""
        listing = self._repository.listing(newest=False)
        path = self._beside(listing, name)
        known = listing.find(path)
        if known is not None and known.lfs is not None:
            return known.lfs.sha256
        return _sha256(self._repository.file(listing, path))

    def _data_files(self, listing: Listing) -> list[str]:
        params, card = self._params, ""
        if listing.find(_CARD) is not None and not params.files:
            file = self._repository.file(listing, _CARD)
            card = file.read_text(encoding="utf-8", errors="replace")
        return files_of_split(
            self._name,
            [file.path for file in listing.files],
            card,
            config=params.config,
            split=params.split,
            given=params.files,
        )

    def _beside(self, listing: Listing, name: str) -> str:
        [first, *_] = self._data_files(listing)
        return str(PurePosixPath(first).parent / name)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def problem_of(error: DatasetError | OSError) -> str:
    """Why a file beside the rows cannot be had."""
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
