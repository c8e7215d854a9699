"""The log files of runs."""

import asyncio
import logging
import re
from collections.abc import Iterator
from multiprocessing import get_context
from pathlib import Path

import pytest

from agentcompass.activities.redaction import Redactor
from agentcompass.activities.store import (
    DriverRecord,
    RequestState,
    RunStore,
    install_run_log,
    log_held,
    records_held,
    run_log_scope,
)
from agentcompass.activities.store.run_log import log_path
from agentcompass.contracts import RunRequest
from agentcompass.contracts.launch import LaunchRuntime

LOG = logging.getLogger("agentcompass.run_harness")


@pytest.fixture(autouse=True)
def installed(redactor: Redactor) -> Iterator[None]:
    root, package = logging.getLogger(), logging.getLogger("agentcompass")
    level = package.level
    handler = install_run_log(redactor)
    yield
    root.removeHandler(handler)
    package.setLevel(level)


def text(store: RunStore) -> str:
    return log_path(store.run_dir).read_text()


def test_line_has_time_level_logger_and_message(store: RunStore) -> None:
    with run_log_scope(store.run_dir):
        LOG.info("turn %d", 3)
    pattern = r"\d\d:\d\d:\d\d INFO     agentcompass\.run_harness {13}turn 3\n"
    assert re.fullmatch(pattern, text(store))


def test_record_goes_to_the_run_of_its_scope_only(store: RunStore, tmp_path: Path) -> None:
    other = RunStore.reserve(tmp_path / "other", owner=DriverRecord(launch_id="o", request_key="k"))
    with run_log_scope(other.run_dir), run_log_scope(store.run_dir):
        LOG.info("mine")
    LOG.info("nobody's")
    assert "mine" in text(store) and text(other) == "" and "nobody" not in text(store)


def test_record_that_names_its_run_needs_no_scope(store: RunStore) -> None:
    LOG.warning("named", extra={"run_dir": str(store.run_dir)})
    assert "named" in text(store)


async def test_scope_holds_in_tasks_and_threads(store: RunStore) -> None:
    async def inside() -> None:
        await asyncio.to_thread(LOG.info, "from a thread")

    with run_log_scope(store.run_dir):
        task = asyncio.create_task(inside())
    await task
    assert "from a thread" in text(store)


def test_foreign_loggers_are_heard_from_warning_on(store: RunStore) -> None:
    foreign = logging.getLogger("httpx_like")
    foreign.setLevel(logging.DEBUG)
    with run_log_scope(store.run_dir):
        foreign.info("chatter")
        foreign.warning("trouble")
        logging.getLogger("agentcompass_but_not_ours").warning("near")
    assert "chatter" not in text(store) and "trouble" in text(store) and "near" in text(store)


def test_file_log_level_of_the_request_holds(store: RunStore, request_one: RunRequest) -> None:
    runtime = LaunchRuntime(file_log_level="WARNING")
    store.save_request(
        RequestState(run_id="run1", launch_id="l", request_key="k", request=request_one, runtime=runtime)
    )
    with run_log_scope(store.run_dir):
        LOG.info("quiet")
        LOG.error("loud")
    assert "quiet" not in text(store) and "loud" in text(store)


def test_secrets_are_masked_in_messages_and_tracebacks(store: RunStore, redactor: Redactor) -> None:
    redactor.register("hunter2-hunter2")
    with run_log_scope(store.run_dir):
        try:
            raise ValueError("bad hunter2-hunter2")
        except ValueError:
            LOG.exception("login %s", "hunter2-hunter2")
    assert "login ***" in text(store) and "ValueError: bad ***" in text(store)
    assert "hunter2" not in text(store)


def test_handler_is_installed_once(redactor: Redactor) -> None:
    assert install_run_log(redactor) is install_run_log(redactor)


def _log_many(run_dir: Path, letter: str) -> None:
    with run_log_scope(run_dir):
        for _ in range(100):
            LOG.info(letter * 200)


def test_processes_do_not_cut_each_others_lines(store: RunStore) -> None:
    context = get_context("fork")
    processes = [context.Process(target=_log_many, args=(store.run_dir, letter)) for letter in "ab"]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    messages = [line.rpartition(" ")[2] for line in text(store).splitlines()]
    assert sorted(messages) == ["a" * 200] * 100 + ["b" * 200] * 100


async def test_what_is_said_before_a_run_has_a_directory_is_in_its_log(store: RunStore) -> None:
    with records_held() as held:
        LOG.info("outside of any run")
        await asyncio.to_thread(LOG.warning, "from a thread")
    LOG.warning("not held any more")
    log_held(held, store.run_dir)
    messages = [line.split("  ")[-1].strip() for line in text(store).splitlines()]
    assert messages == ["outside of any run", "from a thread"]
