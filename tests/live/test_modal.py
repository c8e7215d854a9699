"""Against the real Modal: ``MODAL_TOKEN_ID=… MODAL_TOKEN_SECRET=… pytest tests/live/test_modal.py``. Costs minutes of small sandboxes."""

from __future__ import annotations

import os
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agentcompass.contracts import (
    EnvironmentHandle,
    EnvironmentLostError,
    EnvironmentSession,
    EnvironmentSpec,
    NetworkPolicy,
    OpenRequest,
    ResourceRequirements,
)
from agentcompass.plugins.environments.modal import Modal, ModalParams

pytestmark = pytest.mark.skipif(
    not (os.environ.get("MODAL_TOKEN_ID") and os.environ.get("MODAL_TOKEN_SECRET")),
    reason="needs an account: set MODAL_TOKEN_ID and MODAL_TOKEN_SECRET",
)
NO_NETWORK = NetworkPolicy(network_mode="no-network")
LABELS = {
    "task": "Aufgabe ä/1 " + "x" * 100,
    "attempt": "1",
    "execution": "1",
    "request": "r",
    "expiry": "1790000000",
}
PROBE = "python3 -c \"import urllib.request as u; u.urlopen('https://HOST', timeout=10)\""


def requested(**changes: object) -> OpenRequest:
    """A request for a sandbox without a network."""
    identity = f"ac-live-{uuid.uuid4().hex[:12]}"
    values: dict[str, object] = {
        "environment_id": identity,
        "spec": EnvironmentSpec(id="modal", resources=ResourceRequirements(cpu=0.5, memory_mb=512)),
        "network_policy": NO_NETWORK,
        "env_variables": {"TOKEN": "canary-9a9a"},
        "labels": {"launch": identity, "temporal": "t", **LABELS},
    }
    return OpenRequest.model_validate(values | changes)


def provider(**changes: object) -> Modal:
    """One whose sandboxes do not live long."""
    return Modal(ModalParams.model_validate({"idle_timeout_minutes": 5, "lifetime_minutes": 15} | changes))


@pytest.fixture
async def opened() -> AsyncIterator[tuple[Modal, EnvironmentSession]]:
    """A sandbox without a network."""
    environment, request = provider(), requested()
    try:
        yield environment, await environment.open(request)
    finally:
        await environment.close(EnvironmentHandle(provider="modal", id=request.environment_id))


async def test_commands_processes_and_files(opened: tuple[Modal, EnvironmentSession], tmp_path: Path) -> None:
    environment, session = opened
    result = await session.exec("printf 'caf\\351'; echo err >&2; exit 3")
    assert (result.returncode, result.stdout.head, result.stderr.text) == (3, b"caf\xe9", "err\n")
    assert (await session.exec("echo on; exec sleep 600", timeout_seconds=2)).timed_out
    await session.start_process("p", "echo one; exec sleep 600")
    attached = await environment.attach(session.handle)
    assert await attached.read_process_output("p", "stdout", 0) == b"one\n"
    assert (await attached.exec('printf %s "$TOKEN"')).stdout.text == "canary-9a9a"
    assert await session.end_all_processes() >= 1
    assert (await session.exec("echo on")).stdout.text == "on\n"
    (tmp_path / "source" / "sub").mkdir(parents=True)
    (tmp_path / "source" / "sub" / "file").write_bytes(bytes(range(256)) * 20_000)
    await session.upload(tmp_path / "source", "tree")
    await session.download("tree", tmp_path / "back")
    assert (tmp_path / "back" / "sub" / "file").read_bytes() == bytes(range(256)) * 20_000


async def test_the_network_is_switched(opened: tuple[Modal, EnvironmentSession]) -> None:
    _, session = opened
    allowed, other = PROBE.replace("HOST", "pypi.org"), PROBE.replace("HOST", "example.com")
    assert not (await session.exec(allowed)).ok
    await session.set_network_policy(NetworkPolicy(network_mode="allowlist", allowed_hosts=["pypi.org"]))
    assert (await session.exec(allowed)).ok
    assert not (await session.exec(other)).ok
    await session.set_network_policy(NO_NETWORK)
    assert not (await session.exec(allowed)).ok
    await session.set_network_policy(NetworkPolicy())
    assert (await session.exec(other)).ok


async def test_a_network_that_is_never_switched_is_none_at_all() -> None:
    environment, request = provider(network_switching=False), requested()
    session = await environment.open(request)
    try:
        resolved = await session.exec("python3 -c \"import socket; socket.getaddrinfo('pypi.org', 443)\"")
        assert not resolved.ok
    finally:
        await environment.close(session.handle)


async def test_it_is_found_by_its_name_and_labels_until_it_is_closed(
    opened: tuple[Modal, EnvironmentSession],
) -> None:
    environment, session = opened
    labels = {"launch": session.handle.id, **LABELS}
    again = await environment.open(requested(environment_id=session.handle.id))
    assert again.handle == session.handle
    [record] = await environment.list_environments(labels)
    assert record.handle == session.handle and record.labels == {**labels, "temporal": "t"}
    await environment.close(session.handle)
    assert await environment.list_environments(labels) == []
    with pytest.raises(EnvironmentLostError):
        await environment.attach(session.handle)


async def test_a_dockerfile_is_built(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM python:3.12-slim\nCOPY answer /answer\n")
    (tmp_path / "answer").write_text("42\n")
    environment = provider()
    spec = EnvironmentSpec.model_validate({"id": "modal", "setup": {"build_context": str(tmp_path)}})
    session = await environment.open(requested(spec=spec))
    try:
        assert (await session.exec("cat /answer")).stdout.text == "42\n"
    finally:
        await environment.close(session.handle)
