"""Ending the processes of an environment or a command, so that they are really gone."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable

from .membership import Scope, members
from .process_table import ProcessIdentity, is_alive, send_signal

_KILL_BOUND_SECONDS = 15.0


class ProcessesSurviveError(RuntimeError):
    """Processes are still there although they were killed: in uninterruptible I/O, or not ours to kill."""


def end_members(scope: Scope, *, grace_seconds: float, keep: frozenset[ProcessIdentity] = frozenset()) -> int:
    """End all of ``scope`` but ``keep``; returns how many there were. Blocks: call it in a thread.

    SIGTERM first, SIGKILL after ``grace_seconds``, again for what was born meanwhile.
    Raises ``ProcessesSurviveError`` when something is alive after 15 s of SIGKILL.
    """
    leaders = scope.leaders - keep
    _signal_groups(leaders, signal.SIGSTOP)  # nothing is born in them while we look
    known = _living(scope, set(), keep)
    ended = set(known)
    if known and grace_seconds > 0:
        for identity in known:
            _send(identity, signal.SIGTERM)
            _send(identity, signal.SIGCONT)  # a stopped process sees SIGTERM only then
        wait_until_gone(known, grace_seconds)
    deadline = time.monotonic() + _KILL_BOUND_SECONDS
    # A whole group at once first: a fork bomb outruns everything else.
    _signal_groups(leaders, signal.SIGKILL)
    while left := _living(scope, ended, keep):
        if time.monotonic() > deadline:
            shown = ", ".join(str(identity.pid) for identity in list(left)[:10])
            raise ProcessesSurviveError(f"{len(left)} processes are alive after SIGKILL: {shown}")
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


def _signal_groups(leaders: Iterable[ProcessIdentity], number: signal.Signals) -> None:
    for leader in leaders:
        # While the leader lives, or is not reaped, the number of its group cannot be another's.
        if not is_alive(leader):
            continue
        try:
            if os.getpgid(leader.pid) == leader.pid:
                os.killpg(leader.pid, number)
        except (ProcessLookupError, PermissionError):
            continue  # ended meanwhile, or not ours: found again, or reported, one by one


def _send(identity: ProcessIdentity, number: signal.Signals) -> None:
    try:
        send_signal(identity, number)
    except PermissionError:
        # It runs as another user (sudo): reported by the caller as a survivor.
        return
