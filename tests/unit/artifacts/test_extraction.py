"""Archives of hostile sandboxes."""

from __future__ import annotations

import os
import tarfile

import pytest
from hostile_archives import Extractor, archive, folder, link, member, reasons
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentcompass.activities.artifacts.digest import content_of
from agentcompass.activities.artifacts.meter import LimitExceededError
from agentcompass.contracts import ArtifactKind, ArtifactLimits
from agentcompass.plugins.archives.archive_reader import BrokenArchiveError


def test_a_tree_is_written_and_described(extract: Extractor) -> None:
    done = extract(
        archive(
            folder("out"),
            member("out/a.txt", b"12345", mode=0o755),
            folder("out/empty"),
            link("out/same", "a.txt"),
        )
    )
    assert done.content is not None
    assert (done.content.kind, done.content.size_bytes, done.content.file_count) == ("directory", 5, 2)
    assert (extract.top / "a.txt").read_bytes() == b"12345"
    assert (extract.top / "empty").is_dir()
    assert os.readlink(extract.top / "same") == "a.txt"
    assert (extract.top / "a.txt").stat().st_mode & 0o777 == 0o755


def test_a_single_file_is_identified_by_its_bytes(extract: Extractor) -> None:
    done = extract(archive(member("out", b"abc")))
    assert done.content is not None
    assert done.content.kind is ArtifactKind.FILE
    # printf abc | sha256sum
    assert done.content.sha256 == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert extract.top.read_bytes() == b"abc"


def test_what_is_read_again_has_the_digest_of_what_was_written(extract: Extractor) -> None:
    done = extract(
        archive(
            folder("./out"), member("./out/b", b"1"), member("./out/a/x\n\udcff", b"22"), link("out/l", "a")
        )
    )
    assert content_of(extract.top) == done.content


@pytest.mark.parametrize("change", ["content", "mode", "extra", "name", "link"])
def test_any_change_of_a_tree_changes_its_digest(extract: Extractor, change: str) -> None:
    done = extract(archive(folder("out"), member("out/a", b"1"), link("out/l", "a")))
    top = extract.top
    match change:
        case "content":
            (top / "a").write_bytes(b"2")
        case "mode":
            (top / "a").chmod(0o755)
        case "extra":
            (top / "new").mkdir()
        case "name":
            (top / "a").rename(top / "b")
        case "link":
            (top / "l").unlink()
            (top / "l").symlink_to("./a")
    assert done.content is not None and content_of(top).sha256 != done.content.sha256


@pytest.mark.parametrize(
    ("name", "shown", "reason"),
    [
        ("/etc/cron.d/evil", "/etc/cron.d/evil", "an absolute path"),
        ("out/../../canary.txt", "../../canary.txt", "a path with '..'"),
        ("../canary.txt", "../canary.txt", "a path with '..'"),
        ("canary.txt", "canary.txt", "a path outside of the source"),
        ("other/file", "other/file", "a path outside of the source"),
        ("out/" + "n" * 300, "n" * 200 + "…", "a name that cannot be stored: File name too long"),
        ("out/" + "d/" * 150 + "f", ("d/" * 100) + "…", "nested more than 100 levels deep"),
    ],
)
def test_a_name_that_leads_elsewhere_is_refused(
    extract: Extractor, name: str, shown: str, reason: str
) -> None:
    done = extract(archive(folder("out"), member(name, b"evil"), member("out/good", b"good")))
    assert reasons(done) == {shown: reason}
    assert [path.name for path in extract.top.iterdir()] == ["good"]
    assert extract.nothing_else_happened()


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("/etc/passwd", "a symbolic link to an absolute path, '/etc/passwd'"),
        ("..", "a symbolic link that leaves its folder, to '..'"),
        ("sub/../../x", "a symbolic link that leaves its folder, to 'sub/../../x'"),
        ("bad", "a symbolic link in a loop, to 'bad'"),
    ],
)
def test_a_link_that_leaves_is_refused(extract: Extractor, target: str, reason: str) -> None:
    done = extract(archive(folder("out"), folder("out/sub"), link("out/bad", target)))
    assert reasons(done) == {"bad": reason}
    assert not os.path.lexists(extract.top / "bad")


def test_a_chain_of_harmless_links_that_leads_out_is_refused(extract: Extractor) -> None:
    done = extract(
        archive(
            folder("out"), folder("out/a"), link("out/a/up", ".."), link("out/chain", "a/up/../canary.txt")
        )
    )
    assert list(reasons(done)) == ["chain"]
    assert os.readlink(extract.top / "a" / "up") == ".."


def test_links_in_a_circle_are_refused(extract: Extractor) -> None:
    done = extract(archive(folder("out"), link("out/one", "two"), link("out/two", "one")))
    assert sorted(reasons(done)) == ["one", "two"]


def test_nothing_is_written_through_a_link(extract: Extractor) -> None:
    done = extract(
        archive(
            folder("out"),
            link("out/way", ".."),
            member("out/way/canary.txt", b"evil"),
            link("out/file", "../canary.txt"),
            member("out/file", b"evil"),
        )
    )
    assert reasons(done)["way/canary.txt"] == "below a symbolic link"
    assert reasons(done)["file"].startswith("a symbolic link that leaves its folder")
    assert extract.nothing_else_happened()


def test_a_source_that_is_a_link_is_refused(extract: Extractor) -> None:
    done = extract(archive(link("out", "/etc")))
    assert done.content is None
    assert reasons(done) == {".": "a symbolic link to /etc; declare what it leads to"}


def test_a_hard_link_within_the_archive_is_a_copy_and_any_other_is_refused(extract: Extractor) -> None:
    done = extract(
        archive(
            member("out/a", b"data"),
            member("out/b", kind=tarfile.LNKTYPE, link="out/a"),
            member("out/c", kind=tarfile.LNKTYPE, link="/etc/passwd"),
            member("out/d", kind=tarfile.LNKTYPE, link="canary.txt"),
            member("out/e", kind=tarfile.LNKTYPE, link="out/never"),
            member("out/folder", kind=tarfile.DIRTYPE),
            member("out/f", kind=tarfile.LNKTYPE, link="out/folder"),
            member("out/good", b"1"),
        )
    )
    assert (extract.top / "b").read_bytes() == b"data"
    assert (extract.top / "good").read_bytes() == b"1"
    assert (extract.top / "b").stat().st_nlink == 1
    assert reasons(done) == {
        "c": "an absolute path",
        "d": "a path outside of the source",
        "e": "a hard link to out/never, which was not collected",
        "f": "a hard link to out/folder, which was not collected",
    }


@pytest.mark.parametrize("kind", [tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE])
def test_devices_and_pipes_are_refused(extract: Extractor, kind: bytes) -> None:
    done = extract(archive(member("out/x", kind=kind), member("out/good", b"1")))
    assert reasons(done) == {"x": "a device, pipe or socket, which holds no data"}


def test_setuid_and_unreadable_bits_are_dropped(extract: Extractor) -> None:
    extract(archive(member("out/tool", b"#!", mode=0o6755), member("out/locked", b"", mode=0)))
    assert (extract.top / "tool").stat().st_mode & 0o7777 == 0o755
    assert (extract.top / "locked").stat().st_mode & 0o7777 == 0o600


def test_a_path_that_comes_twice_is_kept_once(extract: Extractor) -> None:
    done = extract(
        archive(member("out/a", b"first"), member("out/a", b"second"), member("out/a/below", b"third"))
    )
    assert (extract.top / "a").read_bytes() == b"first"
    assert reasons(done) == {
        "a": "the archive holds this path twice",
        "a/below": "below something that is no folder",
    }


def test_names_are_shown_printable(extract: Extractor) -> None:
    done = extract(archive(folder("out"), member("out/a\nFAKE LOG\x1b[31m\udcff", kind=tarfile.FIFOTYPE)))
    assert list(reasons(done)) == ["a\\nFAKE LOG\\x1b[31m\\udcff"]


def test_only_the_first_hundred_refusals_are_listed(extract: Extractor) -> None:
    done = extract(archive(*(member(f"out/{n}", kind=tarfile.FIFOTYPE) for n in range(120))))
    assert (len(done.refused), done.refused_count) == (100, 120)


def test_excluded_members_are_dropped_and_do_not_count(extract: Extractor) -> None:
    scratch = (member(f"out/{n}.tmp", b"x") for n in range(50))
    done = extract(
        archive(folder("out"), member("out/a", b"1"), *scratch),
        exclude=["*.tmp"],
        limits=ArtifactLimits(max_files=2),
    )
    assert [path.name for path in extract.top.iterdir()] == ["a"]
    assert (done.excluded, done.refused) == (50, [])


def test_a_file_that_is_excluded_as_a_whole_leaves_nothing(extract: Extractor) -> None:
    done = extract(archive(member("out", b"1")), exclude=["o*"])
    assert (done.content, done.excluded) == (None, 1)


def test_an_entry_too_many_ends_it(extract: Extractor) -> None:
    with pytest.raises(LimitExceededError, match=r"more than 3 entries \(artifact_limits.max_files\)"):
        extract(
            archive(folder("out"), *(member(f"out/{n}") for n in range(3))),
            limits=ArtifactLimits(max_files=3),
        )


def test_folders_that_no_member_names_count_too(extract: Extractor) -> None:
    with pytest.raises(LimitExceededError):
        extract(archive(member("out/a/b/c/d", b"")), limits=ArtifactLimits(max_files=3))


def test_a_declared_size_beyond_the_limit_ends_it_before_a_byte_is_written(extract: Extractor) -> None:
    info, _ = member("out/huge")
    info.size = 100 * 1024**3
    header = info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")
    with pytest.raises(LimitExceededError, match=r"out/huge has 107374182400 bytes"):
        extract(header, limits=ArtifactLimits(max_mb=1))
    assert not (extract.top / "huge").exists()


def test_the_archives_own_overhead_counts(extract: Extractor) -> None:
    many = archive(folder("out"), *(member(f"out/{n}.skip") for n in range(3000)))
    with pytest.raises(LimitExceededError, match="the archive has more"):
        extract(many, exclude=["*.skip"], limits=ArtifactLimits(max_mb=1))


def test_copies_of_hard_links_count_with_their_size(extract: Extractor) -> None:
    links = (member(f"out/l{n}", kind=tarfile.LNKTYPE, link="out/a") for n in range(5))
    with pytest.raises(LimitExceededError):
        extract(archive(member("out/a", b"x" * 300_000), *links), limits=ArtifactLimits(max_mb=1))


@pytest.mark.parametrize("cut", [0, 100, 512, 900, 1024, 1536, 2000])
def test_an_archive_that_breaks_off_is_an_error(extract: Extractor, cut: int) -> None:
    whole = archive(folder("out"), member("out/a", b"x" * 600), member("out/b", b"y"))
    with pytest.raises(BrokenArchiveError):
        extract(whole[:cut])


def test_damage_between_members_is_an_error_and_not_the_end(extract: Extractor) -> None:
    whole = bytearray(archive(folder("out"), member("out/a", b"1"), member("out/b", b"2")))
    whole[1536 + 10] ^= 0xFF  # in the header of out/b
    with pytest.raises(BrokenArchiveError):
        extract(bytes(whole))


def test_an_endless_extended_header_is_not_read_into_memory(extract: Extractor) -> None:
    info = tarfile.TarInfo("././@PaxHeader")
    info.type, info.size = tarfile.XHDTYPE, 8 * 1024**3
    with pytest.raises(BrokenArchiveError, match="a name or header of 8589934592 bytes"):
        extract(info.tobuf(tarfile.GNU_FORMAT))


def test_gnu_and_pax_names_of_any_length_are_read(extract: Extractor) -> None:
    name = "out/" + "long/" * 60 + "file"
    for number, form in enumerate((tarfile.GNU_FORMAT, tarfile.PAX_FORMAT)):
        info = tarfile.TarInfo(f"{name}{number}")
        info.size = 1
        data = info.tobuf(form, "utf-8", "surrogateescape") + b"1".ljust(512, b"\0") + b"\0" * 1024
        extract.staging = extract.parent / f"staging{number}"
        extract.staging.mkdir()
        assert extract(data).content is not None
        assert (extract.top / ("long/" * 60) / f"file{number}").read_bytes() == b"1"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150, deadline=None)
@given(data=st.data())
def test_a_damaged_archive_is_refused_or_read_and_hurts_nothing(
    extract: Extractor, data: st.DataObject
) -> None:
    whole = bytearray(
        archive(folder("out"), member("out/ä" * 30, b"x" * 700), link("out/l", "a"), member("out/b", b"y"))
    )
    for position in data.draw(st.lists(st.integers(0, len(whole) - 1), min_size=1, max_size=8)):
        whole[position] = data.draw(st.integers(0, 255))
    extract.staging = extract.parent / "staging" / os.urandom(8).hex()
    extract.staging.mkdir()
    try:
        extract(bytes(whole), limits=ArtifactLimits(max_mb=1, max_files=50))
    except (BrokenArchiveError, LimitExceededError):
        pass
    assert extract.nothing_else_happened()
