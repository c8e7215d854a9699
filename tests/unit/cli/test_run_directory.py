"""Which run directory a command looks at, and what is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentcompass.cli.commands.run_directory import given_directory, run_directory
from agentcompass.contracts.errors import UsageError


def test_a_directory_with_a_run_info_is_a_run_directory(tmp_path: Path) -> None:
    (tmp_path / "run_info.json").touch()
    assert run_directory(tmp_path, None) == run_directory(None, tmp_path) == tmp_path


def test_a_directory_without_one_is_bad_usage_but_may_hold_runs(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a run directory"):
        run_directory(tmp_path, None)
    assert given_directory(tmp_path, None) == tmp_path


@pytest.mark.parametrize("arguments", [(None, None), (Path("a"), Path("b")), (Path("nowhere"), None)])
def test_none_two_and_a_missing_one_are_bad_usage(arguments: tuple[Path | None, Path | None]) -> None:
    with pytest.raises(UsageError, match="run directory"):
        given_directory(*arguments)
