"""What the hub says of a repository at one commit."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path, PurePosixPath

from pydantic import BaseModel, ConfigDict, Field, field_validator

COMMIT = re.compile(r"^[0-9a-f]{40}$")
_PIECE = 1024 * 1024


class LargeFile(BaseModel):
    """Of a file in large-file storage: the digest of its content."""

    model_config = ConfigDict(extra="ignore")

    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    size: int = Field(ge=0)


class HubFile(BaseModel):
    """A file, with what its content can be verified by."""

    model_config = ConfigDict(extra="ignore", populate_by_name=True)

    path: str = Field(alias="rfilename")
    blob_id: str = Field(default="", alias="blobId")
    """Its id in git; for a large file that of a pointer; some mirrors tell none."""
    size: int | None = Field(default=None, ge=0)
    lfs: LargeFile | None = None

    @field_validator("path")
    @classmethod
    def _stays_inside(cls, value: str) -> str:
        path = PurePosixPath(value)
        if path.is_absolute() or ".." in path.parts or not path.name or "\0" in value or "\\" in value:
            raise ValueError("is not a path inside the repository")
        return value

    @property
    def bytes_count(self) -> int | None:
        """The size of the content, where the hub tells it."""
        return self.lfs.size if self.lfs else self.size

    def is_content_of(self, file: Path) -> bool:
        """Whether a local file has exactly this content, as far as the hub tells. Blocks; ``OSError``."""
        size = file.stat().st_size
        if self.bytes_count not in (None, size):
            return False
        if not self.lfs and not self.blob_id:
            return True
        # Git's id of a blob covers its length, too.
        digest = hashlib.sha256() if self.lfs else hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
        with file.open("rb") as content:
            while piece := content.read(_PIECE):
                digest.update(piece)
        return digest.hexdigest() == (self.lfs.sha256 if self.lfs else self.blob_id)


class Listing(BaseModel):
    """A repository at a commit."""

    model_config = ConfigDict(extra="ignore", populate_by_name=True)

    commit: str = Field(alias="sha", pattern=COMMIT.pattern)
    files: list[HubFile] = Field(alias="siblings")

    def find(self, path: str) -> HubFile | None:
        """The file of that path."""
        return next((file for file in self.files if file.path == path), None)
