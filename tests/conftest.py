"""The session's surroundings: nothing of whoever runs the tests plays a part, nothing is left running."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import CommandLine, end_processes_of
from gated_runs import make_command_line

from agentcompass.cli.embedded_server import EmbeddedServer
from agentcompass.cli.server_process import Ports

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Started in the background of a script, everything below would ignore Ctrl-C, too, and tests send it.
    signal.signal(signal.SIGINT, signal.default_int_handler)


SLOWEST_FIRST = ("durability", "integration", "workflow", "replay")
"""Folders of tests; all others come after these."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """When several processes share the tests, the files that take minutes come first: none is left for the end alone."""

    def place(item: pytest.Item) -> int:
        folder = item.path.relative_to(Path(__file__).parent).parts[0]
        return SLOWEST_FIRST.index(folder) if folder in SLOWEST_FIRST else len(SLOWEST_FIRST)

    if hasattr(config, "workerinput"):  # of pytest-xdist
        items.sort(key=place)


@pytest.fixture(scope="session", autouse=True)
def hermetic_environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Configuration, home and Temporal settings of the user are out of reach; returns the home."""
    folder = tmp_path_factory.mktemp("session")
    (folder / "temporal.toml").touch()
    (folder / "user").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith(("TEMPORAL_", "AGENTCOMPASS_"))]:
            patch.delenv(name)
        patch.setenv("TEMPORAL_CONFIG_FILE", str(folder / "temporal.toml"))
        patch.setenv("HOME", str(folder / "user"))
        patch.setenv("XDG_CONFIG_HOME", str(folder / "user" / ".config"))
        patch.setenv("AGENTCOMPASS_HOME", str(folder / "home"))
        yield folder / "home"


@pytest.fixture(scope="session")
def embedded_home(hermetic_environment: Path) -> Iterator[Path]:
    """The AgentCompass home of the session, with a running server on ports of its own."""
    home = hermetic_environment
    asyncio.run(EmbeddedServer(home, preferred_ports=_free_ports()).ensure())
    try:
        yield home
    finally:
        end_processes_of(home)
        asyncio.run(EmbeddedServer(home).stop())


def _free_ports() -> Ports:
    with socket.socket() as one, socket.socket() as two:
        one.bind(("127.0.0.1", 0))
        two.bind(("127.0.0.1", 0))
        return Ports(one.getsockname()[1], two.getsockname()[1])


@pytest.fixture
def command_line(embedded_home: Path, tmp_path: Path) -> Iterator[CommandLine]:
    """The command line in the test's own folder."""
    command_line = make_command_line(embedded_home, tmp_path)
    yield command_line
    command_line.end_all()


@pytest.fixture
def secluded(tmp_path: Path) -> Iterator[CommandLine]:
    """A command line with a home and a server of its own, for tests that others must not notice."""
    command_line = make_command_line(tmp_path / "home", tmp_path)
    command_line.env["AGENTCOMPASS_HOME"] = str(command_line.home)
    try:
        yield command_line
    finally:
        command_line.end_all()
        end_processes_of(command_line.home)
        asyncio.run(EmbeddedServer(command_line.home).stop())
