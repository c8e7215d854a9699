"""Which files of a repository a split is."""

from __future__ import annotations

import pytest

from agentcompass.contracts import DatasetError
from agentcompass.plugins.benchmarks.hub import files_of_split

GAIA = """\
---
license: other
configs:
  - config_name: 2023_all
    data_files:
      - {split: validation, path: 2023/validation/metadata.parquet}
      - {split: test, path: 2023/test/metadata.parquet}
  - config_name: 2023_level1
    data_files:
      - {split: validation, path: 2023/validation/metadata.level1.parquet}
---
# GAIA
"""
GAIA_FILES = [
    "README.md",
    "2023/test/metadata.parquet",
    "2023/validation/metadata.parquet",
    "2023/validation/metadata.level1.parquet",
    "2023/validation/cca530fc.json",
]
SWE_BENCH = """\
---
configs:
- config_name: default
  data_files:
  - split: test
    path: data/test-*
---
"""


def chosen(paths: list[str], card: str = "", split: str = "test", **choice: object) -> list[str]:
    options = {"config": None, "given": None, **choice}
    return files_of_split("owner/set", paths, card, split=split, **options)  # type: ignore[arg-type]


def test_the_card_says_which_files_a_split_is() -> None:
    parts = ["data/test-00000-of-00002.parquet", "data/test-00001-of-00002.parquet"]
    assert chosen([*parts, "data/train-0.parquet", "data/test-notes.txt"], SWE_BENCH) == parts
    assert chosen(GAIA_FILES, GAIA, "validation", config="2023_all") == ["2023/validation/metadata.parquet"]


def test_a_configuration_has_to_be_named_where_there_are_several() -> None:
    with pytest.raises(
        DatasetError, match="several configurations; name one as 'config': 2023_all, 2023_level1"
    ):
        chosen(GAIA_FILES, GAIA, "validation")
    with pytest.raises(DatasetError, match="no configuration '2024'"):
        chosen(GAIA_FILES, GAIA, "validation", config="2024")
    with pytest.raises(DatasetError, match="no split 'dev': test, validation"):
        chosen(GAIA_FILES, GAIA, "dev", config="2023_all")


def test_without_a_card_names_tell_and_the_best_format_is_taken() -> None:
    assert chosen(["latest/x.jsonl", "data/test-0.parquet", "test.jsonl"]) == ["data/test-0.parquet"]
    assert chosen(["test.jsonl.gz", "contest.jsonl"]) == ["test.jsonl.gz"]


def test_patterns_of_the_user_go_over_the_card() -> None:
    assert chosen(GAIA_FILES, GAIA, given=["*/validation/metadata.level*"]) == [
        "2023/validation/metadata.level1.parquet"
    ]


def test_a_set_without_a_fitting_file_lists_what_it_has() -> None:
    with pytest.raises(DatasetError, match=r"no file for split 'test'; name them as 'files'.*dev.jsonl"):
        chosen(["dev.jsonl", "image.png"])


@pytest.mark.parametrize(
    "card", ["---\n[\n---\n", "---\nconfigs: 3\n---\n", "---\nconfigs: [3, null]\n---\n", "no header"]
)
def test_a_card_that_cannot_be_read_says_nothing(card: str) -> None:
    assert chosen(["test.jsonl"], card) == ["test.jsonl"]
