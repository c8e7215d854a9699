"""Labels of environments say whose they are."""

import pytest

from agentcompass.contracts.environment_labels import EnvironmentOwner

OWNER = EnvironmentOwner(
    launch="weekly",
    request="1-qa-oracle",
    task="group/task 1",
    attempt=2,
    execution=3,
    expiry=1_000,
    temporal="n",
)


@pytest.mark.parametrize("keep", [True, False])
def test_labels_are_text_and_tell_the_owner(keep: bool) -> None:
    owner = OWNER.model_copy(update={"keep": keep})
    labels = owner.labels()
    assert all(isinstance(value, str) for value in labels.values())
    assert EnvironmentOwner.of({**labels, "of": "somebody else"}) == owner


def test_an_owner_names_its_workflows() -> None:
    assert OWNER.workflow_id == "launch/weekly/1-qa-oracle/group%2Ftask 1/a2"
    assert OWNER.launch_workflow_id == "launch/weekly"


def test_an_attempt_that_is_executed_again_is_another_workflow() -> None:
    again = EnvironmentOwner.of(OWNER.model_copy(update={"generation": 2}).labels())
    assert again is not None
    assert again.workflow_id == f"{OWNER.workflow_id}/again2"


@pytest.mark.parametrize(
    "labels",
    [{}, {"launch": "l", "task": "t"}, {**OWNER.labels(), "attempt": "x"}, {"com.example.team": "blue"}],
)
def test_labels_of_somebody_else_name_no_owner(labels: dict[str, str]) -> None:
    assert EnvironmentOwner.of(labels) is None
