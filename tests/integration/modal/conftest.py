"""A provider for the stand-in of Modal."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from fake_modal import VARIABLES, FakeModal, require_fake_modal

from agentcompass.contracts import EnvironmentSpec, NetworkPolicy, OpenRequest
from agentcompass.plugins.environments.modal import Modal, ModalParams

NOTHING_WRONG: dict[str, Any] = {
    "quota": 1000,
    "page": 2,
    "busy": 0,
    "throttled": 0,
    "lost_answers": 0,
    "broken_creations": 0,
    "hold_creations": False,
    "hold_builds": False,
    "hold_removals": False,
}


@pytest.fixture
def modal() -> Iterator[FakeModal]:
    """The stand-in; no sandbox is left, and nothing goes wrong any more."""
    found = require_fake_modal()
    yield found
    found.fail(**NOTHING_WRONG)
    assert found.seen()["sandboxes"] == []


@pytest.fixture
def provider(modal: FakeModal) -> Callable[..., Modal]:
    """Makes providers, with some parameters changed."""

    def make(**changes: Any) -> Modal:
        return Modal(ModalParams.model_validate({**VARIABLES, "grace_seconds": 0.3} | changes))

    return make


@pytest.fixture
def request_for() -> Callable[..., OpenRequest]:
    """Makes requests for sandboxes of new ids; keys of the spec may be given."""

    def make(environment_id: str = "", spec: dict[str, Any] | None = None, **changes: Any) -> OpenRequest:
        values: dict[str, Any] = {
            "environment_id": environment_id or f"ac-modal-test-{uuid.uuid4().hex[:12]}",
            "spec": EnvironmentSpec(id="modal", **(spec or {})),
            "network_policy": NetworkPolicy(),
            "labels": {"launch": "modal-test"},
        }
        return OpenRequest(**(values | changes))

    return make
