"""What images are made of, and what is told of those that cannot be made."""

from __future__ import annotations

import asyncio

import pytest
from environment_providers import eventually
from planning import planned_for

from agentcompass.contracts import TaskSpec, UsageError


def layers(modal) -> list[list[str]]:  # type: ignore[no-untyped-def]
    """The Dockerfile of every layer that was ever asked for."""
    return [image["dockerfileCommands"] for image in modal.seen()["images"]]


async def test_the_image_of_a_task_is_used_without_its_entrypoint(modal, provider, request_for) -> None:  # type: ignore[no-untyped-def]
    environment = provider()
    session = await environment.open(request_for(spec={"setup": {"image": "debian:12-slim"}}))
    await environment.close(session.handle)
    assert ["FROM debian:12-slim"] in layers(modal)
    assert ["FROM base", "ENTRYPOINT []"] in layers(modal)


async def test_an_official_image_of_swe_bench_is_asked_for_with_room_for_it(  # type: ignore[no-untyped-def]
    modal, provider, request_for
) -> None:
    image = "swebench/sweb.eval.x86_64.django_1776_django-11039:latest"
    task = TaskSpec(task_id="django__django-11039", image=image)
    params = {"path": "rows.jsonl", "folder": "/home/modal/testbed"}
    plan = planned_for("swebench_verified", params, task, {"id": "modal"})
    environment = provider(**plan.environment.params)
    session = await environment.open(request_for().model_copy(update={"spec": plan.environment}))
    [asked] = modal.seen()["asked"]
    await environment.close(session.handle)
    assert [f"FROM {image}"] in layers(modal)
    assert (asked["resources"]["milliCpu"], asked["resources"]["memoryMb"]) == (2000, 8192)
    assert session.workdir == "/home/modal/testbed"


async def test_a_folder_with_a_dockerfile_is_built_at_modal_with_what_it_copies(  # type: ignore[no-untyped-def]
    modal, provider, request_for, tmp_path
) -> None:
    (tmp_path / "Dockerfile").write_text("FROM debian:12\nCOPY data /data\nRUN true\n")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "answers.txt").write_text("42")
    (tmp_path / "unused.txt").write_text("x")
    environment = provider()
    spec = {"setup": {"build_context": str(tmp_path)}}
    await environment.preflight(request_for(spec=spec).spec)
    session = await environment.open(request_for(spec=spec))
    await environment.close(session.handle)
    assert any("COPY data /data" in commands for commands in layers(modal))
    names = modal.seen()["files"]
    assert any(name.endswith("data/answers.txt") for name in names)
    assert not any("unused" in name for name in names)


async def test_a_dockerfile_that_is_not_there_is_told_at_preflight(provider, request_for, tmp_path) -> None:  # type: ignore[no-untyped-def]
    spec = {"setup": {"build_context": str(tmp_path), "dockerfile": "other"}}
    with pytest.raises(UsageError, match=r"other is no file"):
        await provider().preflight(request_for(spec=spec).spec)


async def test_an_image_that_cannot_be_made_says_why(provider, request_for) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(UsageError, match=r"cannot make the image of never-made: .*manifest unknown"):
        await provider().open(request_for(spec={"setup": {"image": "never-made"}}))


async def test_a_build_is_given_the_time_that_its_task_says(modal, provider, request_for) -> None:  # type: ignore[no-untyped-def]
    modal.fail(hold_builds=True)
    spec = {"setup": {"image": "slow:1", "build_timeout_seconds": 0.5}}
    with pytest.raises(TimeoutError, match=r"image of slow:1 is not built after 0\.5 s"):
        await provider().open(request_for(spec=spec))


async def test_an_opening_that_is_cancelled_during_the_build_ends_at_once(
    modal, provider, request_for
) -> None:  # type: ignore[no-untyped-def]
    modal.fail(hold_builds=True)
    before = len(modal.seen()["requests"])
    opening = asyncio.create_task(provider().open(request_for(spec={"setup": {"image": "slow:2"}})))

    async def building() -> bool:
        return "ImageJoinStreaming" in modal.seen()["requests"][before:]

    await eventually(building, "the image is being built")
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(opening, 30)
