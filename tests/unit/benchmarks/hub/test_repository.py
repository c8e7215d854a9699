"""Data sets of a hub: fetched once, verified, kept, and refused with the reason."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_hub import TOKEN, FakeHub, Repository

from agentcompass.contracts import DatasetError
from agentcompass.plugins.benchmarks.hub import HubRepository

ROWS, LARGE = b'{"id": 1}\n', b"PAR1 and so on"


@pytest.fixture
def name(hub: FakeHub) -> str:
    files = {"test.jsonl": ROWS, "data/test-0.parquet": LARGE}
    hub.repositories["owner/set"] = Repository(files, large=("data/test-0.parquet",))
    return "owner/set"


def opened(name: str, revision: str = "main") -> HubRepository:
    return HubRepository(name, revision, "HF_TOKEN")


def fetched(name: str, path: str, revision: str = "main") -> bytes:
    repository = opened(name, revision)
    return repository.file(repository.listing(newest=True), path).read_bytes()


def test_files_are_fetched_once(hub: FakeHub, name: str) -> None:
    assert fetched(name, "test.jsonl") == ROWS
    assert fetched(name, "data/test-0.parquet") == LARGE
    hub.requests.clear()
    assert fetched(name, "data/test-0.parquet") == LARGE
    [request] = hub.requests
    assert "/api/datasets/owner/set/revision/main" in request


def test_a_branch_is_what_it_means_now_and_a_commit_needs_no_network(hub: FakeHub, name: str) -> None:
    before = hub.repositories[name].commit
    assert fetched(name, "test.jsonl", before) == ROWS
    hub.repositories[name].files["test.jsonl"] = b'{"id": 2}\n'
    assert fetched(name, "test.jsonl") == b'{"id": 2}\n'
    hub.requests.clear()
    assert fetched(name, "test.jsonl", before) == ROWS
    assert hub.requests == []


@pytest.mark.parametrize("away", ["silent", "busy", "offline"])
def test_without_a_network_what_was_fetched_before_is_used(
    hub: FakeHub, name: str, away: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    fetched(name, "test.jsonl")
    if away == "offline":
        monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    hub.answers = [0 if away == "silent" else 503] * 3
    assert fetched(name, "test.jsonl") == ROWS
    assert hub.repositories[name].commit[:12] in caplog.text


def test_without_a_network_what_was_never_fetched_is_refused_with_advice(hub: FakeHub, name: str) -> None:
    hub.answers = [0, 0, 0]
    with pytest.raises(DatasetError, match=r"cannot be fetched from http://127.*give a file as 'path'"):
        fetched(name, "test.jsonl")


def test_a_hub_that_is_busy_or_drops_a_connection_is_asked_again(hub: FakeHub, name: str) -> None:
    hub.answers = [429, 0]
    assert fetched(name, "test.jsonl") == ROWS


@pytest.mark.parametrize("path", ["test.jsonl", "data/test-0.parquet"])
def test_what_arrives_changed_is_refused_and_not_kept(hub: FakeHub, name: str, path: str) -> None:
    hub.spoiled.add(path)
    with pytest.raises(DatasetError, match="its digest differs"):
        fetched(name, path)
    hub.spoiled.clear()
    assert fetched(name, path) == hub.repositories[name].files[path]


def test_a_copy_that_somebody_has_changed_is_fetched_again(hub: FakeHub, name: str) -> None:
    repository = opened(name)
    local = repository.file(repository.listing(newest=True), "test.jsonl")
    local.write_bytes(b"other data")
    assert fetched(name, "test.jsonl") == ROWS


def test_a_gated_set_says_where_its_terms_are(
    hub: FakeHub, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.repositories[name].gated = True
    with pytest.raises(
        DatasetError, match=r"gated: accept its terms at .*/datasets/owner/set, and set HF_TOKEN"
    ):
        fetched(name, "test.jsonl")
    monkeypatch.setenv("HF_TOKEN", "hf_of_somebody_else")
    with pytest.raises(DatasetError, match="the token in HF_TOKEN may not read"):
        fetched(name, "test.jsonl")


def test_the_token_reads_a_gated_set_and_stays_with_the_hub(
    hub: FakeHub, name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    hub.repositories[name].gated = True
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    assert (
        fetched(name, "data/test-0.parquet") == LARGE
    )  # from the other host, which notes a token as a violation
    kept = [file for file in (tmp_path / "home").rglob("*") if file.is_file()]
    assert kept and all(TOKEN.encode() not in file.read_bytes() for file in kept)


def test_a_token_that_no_header_can_hold_is_not_shown(
    hub: FakeHub, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", f"{TOKEN}\nx")
    with pytest.raises(DatasetError, match="HF_TOKEN has blanks or control characters") as caught:
        fetched(name, "test.jsonl")
    assert TOKEN not in str(caught.value)


@pytest.mark.parametrize("endpoint", ["https://reader:canary-8812@hub.example", "ftp://canary-8812"])
def test_an_address_of_a_hub_that_cannot_be_used_is_not_shown(
    monkeypatch: pytest.MonkeyPatch, endpoint: str
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", endpoint)
    with pytest.raises(DatasetError, match="the variable HF_ENDPOINT") as caught:
        opened("owner/set")
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize(
    ("dataset", "revision", "problem"),
    [
        ("owner/other", "main", "has no data set 'owner/other', or it is private"),
        ("owner/set", "v2", "has no revision 'v2'"),
    ],
)
def test_what_is_not_there_is_named(
    hub: FakeHub, name: str, dataset: str, revision: str, problem: str
) -> None:
    with pytest.raises(DatasetError, match=problem):
        fetched(dataset, "test.jsonl", revision)


def test_a_set_that_was_renamed_is_found(hub: FakeHub, name: str) -> None:
    hub.renamed["former/set"] = name
    assert fetched("former/set", "data/test-0.parquet") == LARGE


@pytest.mark.parametrize("path", ["../evil", "/etc/evil", "a/../../evil", "a\\evil", "nul\0"])
def test_a_path_that_leaves_the_repository_refuses_it(hub: FakeHub, name: str, path: str) -> None:
    hub.repositories[name].files[path] = b"x"
    with pytest.raises(DatasetError, match="is not a path inside the repository"):
        opened(name).listing(newest=True)


def test_the_hubs_own_client_understands_the_stand_in(
    hub: FakeHub, name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    official = pytest.importorskip("huggingface_hub", reason="comes with the extra 'swebench'")
    hub.repositories[name].gated, hub.has_more = True, True
    got = official.snapshot_download(
        name, repo_type="dataset", endpoint=hub.url, token=TOKEN, cache_dir=tmp_path / "official"
    )
    assert (Path(got) / "test.jsonl").read_bytes() == ROWS
    with pytest.raises(official.errors.GatedRepoError):
        official.HfApi(endpoint=hub.url).dataset_info(name, token=False)
    with pytest.raises(official.errors.RevisionNotFoundError):
        official.HfApi(endpoint=hub.url, token=TOKEN).dataset_info(name, revision="v2")
