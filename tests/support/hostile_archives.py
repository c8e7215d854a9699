"""Archives as a hostile sandbox may send them, and a place to extract them to."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

from agentcompass.activities.artifacts.extraction import TOP, Extracted, Extraction
from agentcompass.activities.artifacts.meter import TransferMeter
from agentcompass.contracts import ArtifactLimits
from agentcompass.plugins.archives.archive_reader import ArchiveReader


def member(
    name: str, data: bytes = b"", *, kind: bytes = tarfile.REGTYPE, link: str = "", mode: int = 0o644
) -> tuple[tarfile.TarInfo, bytes]:
    """A member of an archive, as unreasonable as wanted."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode, info.size = kind, link, mode, len(data)
    return info, data


def folder(name: str) -> tuple[tarfile.TarInfo, bytes]:
    """A folder as a member."""
    return member(name, kind=tarfile.DIRTYPE, mode=0o755)


def link(name: str, target: str) -> tuple[tarfile.TarInfo, bytes]:
    """A symbolic link as a member."""
    return member(name, kind=tarfile.SYMTYPE, link=target)


def archive(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    """The archive of ``members``."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as written:
        for info, data in members:
            written.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


class Extractor:
    """Extracts archives of a source called ``out`` into a folder that has a neighbour to be hurt."""

    def __init__(self, folder: Path) -> None:
        self.parent = folder
        self.staging = folder / "staging"
        self.staging.mkdir()
        self.canary = folder / "canary.txt"
        self.canary.write_text("untouched")

    @property
    def top(self) -> Path:
        """What the source has become."""
        return self.staging / TOP

    def __call__(
        self, data: bytes, *, exclude: list[str] | None = None, limits: ArtifactLimits | None = None
    ) -> Extracted:
        meter = TransferMeter(limits or ArtifactLimits())
        stream = io.BytesIO(data)

        def read(size: int) -> bytes:
            piece = stream.read(size)
            meter.received(len(piece))
            return piece

        return Extraction(self.staging, "out", exclude or [], meter).run(ArchiveReader(read))

    def nothing_else_happened(self) -> bool:
        """Whether all that was written is below the staging folder."""
        names = sorted(path.name for path in self.parent.iterdir())
        return names == ["canary.txt", "staging"] and self.canary.read_text() == "untouched"


def reasons(extracted: Extracted) -> dict[str, str]:
    """What was refused, by path."""
    return {refused.path: refused.reason for refused in extracted.refused}
