"""Which services are over, decided from what an engine lists."""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from agentcompass.plugins.environments.docker.keeper import __main__ as keeper
from agentcompass.plugins.environments.docker.keeper import belongings
from agentcompass.plugins.environments.docker.keeper.belongings import Belonging, Memory

NOW = 1_000_000.0


def labels(seconds: str | None, **more: str) -> dict[str, str]:
    own = {"agentcompass.environment": "ac-1", **more}
    return own if seconds is None else own | {"agentcompass.seconds": seconds}


def container(
    service: str, state: str = "running", age: float = 5.0, seconds: str | None = "60"
) -> Belonging:
    found = labels(seconds, **{"agentcompass.service": service})
    return belongings.container({"Id": service, "Labels": found, "State": state, "Created": int(NOW - age)})


def network(created: str = "1970-01-12T13:46:35.123456789Z", seconds: str | None = "60") -> Belonging:
    item: dict[str, Any] = {"Id": "n", "Labels": labels(seconds), "Created": created}
    return belongings.network(item)


def paths(found: list[Belonging]) -> list[str]:
    return [item.path.split("?")[0] for item in found]


def test_services_go_when_their_sandbox_was_there_and_is_missing_twice() -> None:
    memory = Memory()
    everything = [container("web"), container("main"), network()]
    without = [container("web"), network()]
    assert memory.over(everything, NOW) == []
    assert memory.over(without, NOW) == []
    assert paths(memory.over(without, NOW)) == ["/containers/web", "/networks/n"]
    assert paths(memory.over([network()], NOW)) == ["/networks/n"], "what could not be removed is tried again"


def test_a_sandbox_that_is_restarted_loses_nothing() -> None:
    memory = Memory()
    memory.over([container("web"), container("main")], NOW)
    for _ in range(3):
        assert memory.over([container("web"), container("main", "exited")], NOW) == []
    assert memory.over([container("web")], NOW) == []
    assert memory.over([container("web"), container("main")], NOW) == []
    assert memory.over([container("web")], NOW) == [], "one miss among many"


@pytest.mark.parametrize("found", [[container("web", age=61)], [container("main", "created", age=61)]])
def test_a_sandbox_that_never_began_has_the_time_of_what_was_made_for_it(found: list[Belonging]) -> None:
    young = [container("web", age=59)]
    assert Memory().over(young, NOW) == []
    assert Memory().over(found + young, NOW) == [], "something was made a moment ago"
    assert Memory().over(found, NOW) == found


def test_a_running_sandbox_is_never_too_old() -> None:
    assert Memory().over([container("main", age=1e6), container("web", age=1e6)], NOW) == []


@pytest.mark.parametrize("seconds", ["0", None, "soon"])
def test_what_is_kept_or_says_nothing_stays(seconds: str | None) -> None:
    memory = Memory()
    memory.over([container("main", seconds=seconds), container("web", seconds=seconds)], NOW)
    for _ in range(3):
        assert memory.over([container("web", age=1e6, seconds=seconds)], NOW) == []


def test_moments_that_cannot_be_read_do_not_count() -> None:
    assert Memory().over([network("once"), network("")], NOW) == []
    old = network("1970-01-01T00:00:00Z")
    assert Memory().over([old, network("once")], NOW) == [old, network("once")]


def test_sandboxes_are_told_apart() -> None:
    memory = Memory()
    other = Belonging("/containers/x", "ac-2", 60, NOW, "main", True)
    memory.over([container("main"), container("web"), other], NOW)
    memory.over([container("web"), other], NOW)
    assert paths(memory.over([container("web"), other], NOW)) == ["/containers/web"]


@pytest.mark.parametrize("body", [b"<html>", b"{", b"\xff"])
def test_an_answer_that_is_no_json_is_a_failed_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: bytes
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        server.bind(str(tmp_path / "engine"))
        server.listen()
        monkeypatch.setattr(keeper, "SOCKET", str(tmp_path / "engine"))

        def answer() -> None:
            line, _ = server.accept()
            with line:
                line.recv(65536)
                line.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))

        answering = threading.Thread(target=answer)
        answering.start()
        with pytest.raises(OSError, match="200 without JSON"):
            keeper.look(Memory())
        answering.join()
