"""Ending the processes of an environment or a command, so that they are really gone."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterable

from .membership import Scope, members
from .process_table import ProcessIdentity, is_alive, send_signal

_KILL_BOUND_SECONDS = 15.0
_STOP_ROUNDS = 20


class ProcessesSurviveError(RuntimeError):
    """Processes are still there although they were killed: in uninterruptible I/O, or not ours to kill."""


def end_members(scope: Scope, *, grace_seconds: float, keep: frozenset[ProcessIdentity] = frozenset()) -> int:
    """End all of ``scope`` but ``keep``; returns how many there were. Blocks: call it in a thread.

    SIGTERM first, SIGKILL after ``grace_seconds``, again for what was born meanwhile.
    Raises ``ProcessesSurviveError`` when something is alive after 15 s of SIGKILL.
    """
    known = _living(scope, set(), keep)
    ended = set(known)
    if known and grace_seconds > 0:
        for identity in known:
            _send(identity, signal.SIGTERM)
            _send(identity, signal.SIGCONT)  # a stopped process sees SIGTERM only then
        wait_until_gone(known, grace_seconds)
    deadline = time.monotonic() + _KILL_BOUND_SECONDS
    while left := _living(scope, ended, keep):
        if time.monotonic() > deadline:
            raise ProcessesSurviveError(f"still alive after SIGKILL: {sorted(item.pid for item in left)}")
        ended |= left
        if len(left) > 1:
            left = _stop_all(scope, left, keep)
            ended |= left
        for identity in left:
            _send(identity, signal.SIGKILL)
        wait_until_gone(left, 0.5)
    return len(ended)


def wait_until_gone(identities: Iterable[ProcessIdentity], seconds: float) -> bool:
    """Wait up to ``seconds`` for all of them to end; True when they have."""
    deadline = time.monotonic() + seconds
    pause = 0.001
    left = [identity for identity in identities if is_alive(identity)]
    while left and time.monotonic() < deadline:
        time.sleep(pause)
        pause = min(pause * 2, 0.05)
        left = [identity for identity in left if is_alive(identity)]
    return not left


def _living(
    scope: Scope, known: set[ProcessIdentity], keep: frozenset[ProcessIdentity]
) -> set[ProcessIdentity]:
    return {info.identity for info in members(scope, known)} - keep


def _stop_all(
    scope: Scope, left: set[ProcessIdentity], keep: frozenset[ProcessIdentity]
) -> set[ProcessIdentity]:
    """Stop them, and their children that are being born, so that nothing outruns the killing."""
    stopped: set[ProcessIdentity] = set()
    for _ in range(_STOP_ROUNDS):
        new = left - stopped
        if not new:
            break
        for identity in new:
            _send(identity, signal.SIGSTOP)
        stopped |= new
        left = _living(scope, stopped, keep)
    return stopped | left


def _send(identity: ProcessIdentity, number: signal.Signals) -> None:
    try:
        send_signal(identity, number)
    except PermissionError:
        # It runs as another user (sudo): reported by the caller as a survivor.
        return
