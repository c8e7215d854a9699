"""A whole run with sandboxes at Modal, as a user starts it."""

from __future__ import annotations

import json
import os

import pytest
from command_line import CommandLine
from fake_modal import TOKEN, FakeModal


@pytest.fixture
def at_modal(command_line: CommandLine, modal: FakeModal) -> CommandLine:
    """The command line of somebody with an account at Modal."""
    names = ("MODAL_TOKEN_ID", "MODAL_TOKEN_SECRET")
    command_line.env.update(zip(names, TOKEN.values(), strict=True), MODAL_SERVER_URL=modal.url)
    return command_line


def test_an_agent_solves_tasks_in_sandboxes_that_are_kept_and_released(
    at_modal: CommandLine, modal: FakeModal
) -> None:
    ended = at_modal.run(
        *("run", "terminal_tasks", "terminal_agent", "scripted", "--env", "modal"),
        *("--progress", "none", "--keep-environment"),
    ).expect(0)
    assert "4/4 tasks evaluated" in ended.stdout
    [run_dir] = at_modal.run_dirs
    launch = json.loads((run_dir / "run_info.json").read_bytes())["launch_id"]
    listed = at_modal.run("env", "list", "--launch", launch, "--json").expect(0)
    assert {(item["provider"], item["state"]) for item in listed.json} == {("modal", "kept")}
    assert len(listed.json) == len(modal.seen()["sandboxes"]) == 4
    said = ended.stdout + ended.stderr + listed.stdout + str(modal.seen())
    at_modal.run("env", "release", "--launch", launch).expect(0)
    assert modal.seen()["sandboxes"] == []
    for secret in TOKEN.values():
        assert secret not in said
        for folder, _, files in os.walk(run_dir):
            for name in files:
                with open(os.path.join(folder, name), "rb") as file:
                    assert secret.encode() not in file.read(), name


def test_a_run_without_a_token_ends_before_it_begins(command_line: CommandLine) -> None:
    command_line.env["MODAL_CONFIG_PATH"] = os.devnull
    ended = command_line.run("run", "terminal_tasks", "oracle", "none", "--env", "modal").expect(2)
    assert "in the variables MODAL_TOKEN_ID and MODAL_TOKEN_SECRET" in ended.stderr
