"""What a declaration of artifacts may say."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from agentcompass.contracts import ArtifactCommand, ArtifactSpec, ExecutionSpec, TaskSpec
from agentcompass.contracts.artifacts import is_excluded


def test_destination_defaults_to_the_last_component_of_the_source() -> None:
    assert ArtifactSpec(source="/app/submission/").destination == "submission"
    assert ArtifactSpec(source="{workdir}/out/result.json").destination == "result.json"


def test_destination_is_normalised() -> None:
    assert ArtifactSpec(source="/a", destination="./kept//a").destination == "kept/a"


@pytest.mark.parametrize("source", ["relative/path", "", "/", "/app/../etc", "{workdir}/", "{workdir}/../x"])
def test_source_that_names_no_place_below_the_root_is_refused(source: str) -> None:
    with pytest.raises(ValidationError, match="source"):
        ArtifactSpec(source=source)


@pytest.mark.parametrize("destination", ["/etc", "../up", "a/../../b", "nul\0"])
def test_destination_outside_of_the_artifact_directory_is_refused(destination: str) -> None:
    with pytest.raises(ValidationError, match="must stay below the artifact directory"):
        ArtifactSpec(source="/a", destination=destination)


@pytest.mark.parametrize("pattern", ["", "/", "/abs", "../up", "a/../b"])
def test_exclude_pattern_that_is_not_relative_is_refused(pattern: str) -> None:
    with pytest.raises(ValidationError, match="must be relative to the source"):
        ArtifactSpec(source="/a", exclude=[pattern])


@pytest.mark.parametrize(("one", "two"), [("out", "out"), ("out", "out/inner"), ("a/b/c", "a/b")])
def test_destinations_that_overlap_are_refused(one: str, two: str) -> None:
    specs = [{"source": "/one", "destination": one}, {"source": "/two", "destination": two}]
    with pytest.raises(ValidationError, match="share the destination"):
        ExecutionSpec.model_validate({"artifacts": specs})
    with pytest.raises(ValidationError, match="share the destination"):
        TaskSpec.model_validate({"task_id": "t", "artifacts": specs})


def test_destinations_side_by_side_are_fine() -> None:
    specs = [{"source": "/one", "destination": "out"}, {"source": "/two", "destination": "out2"}]
    assert len(TaskSpec.model_validate({"task_id": "t", "artifacts": specs}).artifacts or []) == 2


def test_a_command_has_a_minute_unless_told_otherwise() -> None:
    assert ArtifactCommand(command="true").timeout_seconds == 60


@pytest.mark.parametrize(
    ("path", "pattern", "excluded"),
    [
        ("a.tmp", "*.tmp", True),
        ("deep/er/a.tmp", "*.tmp", True),
        ("a.tmp/inside", "*.tmp", True),
        ("a.tmpx", "*.tmp", False),
        ("dir", "dir/**", False),
        ("dir/a", "dir/**", True),
        ("dir/a/b", "dir/**", True),
        ("other/dir/a", "dir/**", False),
        ("dir/a", "dir", True),
        ("other/dir/a", "dir", True),
        ("a/b", "a/*", True),
        ("a/b/c", "a/*/c", True),
        ("a/b/b/c", "a/*/c", False),
        ("a/b/b/c", "a/**/c", True),
        ("a/c", "a/**/c", True),
        ("x/y/c", "**/c", True),
        ("line\nbreak.tmp", "*.tmp", True),
        ("A.TMP", "*.tmp", False),
    ],
)
def test_exclude_patterns(path: str, pattern: str, excluded: bool) -> None:
    assert is_excluded(tuple(path.split("/")), [pattern]) is excluded
