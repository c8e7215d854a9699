"""Flags of ``agentcompass worker``: what is refused, and what several processes get."""

from __future__ import annotations

import pytest

from agentcompass.cli.commands.worker_flags import WorkerFlags
from agentcompass.contracts.errors import UsageError


@pytest.mark.parametrize(
    "value", ["9464", "0.0.0.0", "host.example:9464", "127.0.0.1:x", "127.0.0.1:70000", ":80"]
)
@pytest.mark.parametrize("flag", ["metrics_address", "health_address"])
def test_address_that_is_none_is_refused_by_the_flags_name(flag: str, value: str) -> None:
    with pytest.raises(UsageError, match=f"--{flag.replace('_', '-')}: .*is not IP:PORT"):
        WorkerFlags(**{flag: value}).options()


@pytest.mark.parametrize(
    ("value", "text"),
    [("localhost:1", "127.0.0.1:1"), ("[::1]:9464", "[::1]:9464"), ("0.0.0.0:80", "0.0.0.0:80")],
)
def test_addresses_are_read_as_operators_write_them(value: str, text: str) -> None:
    address = WorkerFlags(metrics_address=value).options().metrics_address
    assert address is not None and address.text == text


def test_each_process_of_several_takes_ports_of_its_own() -> None:
    flags = WorkerFlags(workers=3, metrics_address="127.0.0.1:9464", health_address="127.0.0.1:8080")
    line = flags.command_line(2)
    assert line[line.index("--number") + 1] == "2" and "--workers" not in line
    options = WorkerFlags(number=2, metrics_address="127.0.0.1:9464").options()
    assert options.metrics_address is not None and options.metrics_address.port == 9466
    with pytest.raises(UsageError, match="65535"):
        WorkerFlags(workers=2, metrics_address="127.0.0.1:65535").options()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (WorkerFlags(deployment_name="evaluations"), "go together"),
        (WorkerFlags(build_id="v1"), "go together"),
        (WorkerFlags(deployment_name="evaluations.eu", build_id="v1"), "has a dot"),
        (WorkerFlags(task_queue=" "), "--task-queue: the value is empty"),
    ],
)
def test_what_cannot_be_meant_is_refused(flags: WorkerFlags, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        flags.options()
