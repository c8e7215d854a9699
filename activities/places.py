"""Places at a provider: asking its pool for one, and waiting for it together with the others of this process.

Those that wait are looked after by one task for each provider. It asks the pool by a query, which costs no history,
more and more seldom while nothing changes; and now and then whether those that hold a place are still there.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TypeVar

from temporalio import activity
from temporalio.client import Client, WorkflowQueryFailedError, WorkflowQueryRejectedError
from temporalio.common import QueryRejectCondition
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory
from temporalio.service import RPCError, RPCStatusCode

from ..contracts.pool import Grant, LeaseRequest, Place, PlacesAnswer, PlacesAsked
from ..contracts.workflows import (
    ACQUIRE_SIGNAL,
    GONE_SIGNAL,
    PLACES_QUERY,
    PoolAnswer,
    pool_workflow_id,
)
from .heartbeat import SELDOM_SECONDS
from .pool_client import ask_pool, is_running, release_place, start_pool

_FIRST_PAUSE = 0.2
_LAST_PAUSE = 2.0
_MEMBERS_SECONDS = 30.0
"""How often somebody who waits has it looked at whether those before him are still there."""
_FORGOTTEN_SECONDS = 2 * SELDOM_SECONDS
"""How long an attempt that the pool does not know waits before it asks again: a cancellation comes with a heartbeat."""
_PATIENCE = timedelta(seconds=10)
_ASKING_AT_ONCE = 4
"""A server takes ten updates of a workflow at a time, from all workers together."""
_IN_LINE = 200
"""Attempts of a launch that one worker process has waiting in a pool. More wait here, in order, until one of these goes on."""
_ASKED_AT_ONCE = 1000
_LOOKS_AT_ONCE = 16
_GONE_AT_ONCE = 100
_log = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(eq=False)
class _Waiting:
    place: Place
    answer: asyncio.Future[Grant | None]
    """``None``: the pool does not know of it, and has to be asked again."""


@dataclass
class _Doors:
    """How many of a launch may be in a pool's line, and how many want to."""

    semaphore: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_IN_LINE))
    users: int = 0

    async def enter(self) -> None:
        """Raises ``ApplicationError`` when the worker is to leave."""
        entering = asyncio.ensure_future(self.semaphore.acquire())
        try:
            await _unless_leaving(entering)
        except BaseException:  # whatever ends the waiting, nobody would give the place in the line back
            if entering.done() and not entering.cancelled():
                self.semaphore.release()
            entering.cancel()
            raise


class Places:
    """The places that attempts of one worker process have and want. An attempt may ask twice."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._asking = asyncio.Semaphore(_ASKING_AT_ONCE)
        self._rooms: dict[str, _Room] = {}
        self._before: dict[tuple[str, str], _Doors] = {}
        """By provider and launch."""

    async def take(self, provider: str, request: LeaseRequest, *, start: bool = False) -> Grant | None:
        """Wait for a place and a turn; ``None`` when there is no pool, and so no limit.

        ``start`` starts the pool if there is none. Cancelled, it keeps its place in the queue: the closing of the
        environment gives that up.
        """
        if request.begun:
            # It may hold a place for which those before it wait.
            return await self._take(provider, request, start=start)
        async with self._in_line(provider, request.launch):
            return await self._take(provider, request, start=start)

    async def _take(self, provider: str, request: LeaseRequest, *, start: bool) -> Grant | None:
        while True:
            answer = await self._ask(provider, request, start=start)
            if answer is None or answer.grant is not None:
                return None if answer is None else answer.grant
            granted = await self._room(provider).wait(request)
            if granted is not None:
                return granted
            # Most likely its attempt was cancelled and has given the place up, of which we are about to hear.
            await asyncio.sleep(_FORGOTTEN_SECONDS)

    @asynccontextmanager
    async def _in_line(self, provider: str, launch: str) -> AsyncIterator[None]:
        """Not too many of a launch at a time; first come, first served."""
        doors = self._before.setdefault((provider, launch), _Doors())
        doors.users += 1
        try:
            await doors.enter()
            try:
                yield
            finally:
                doors.semaphore.release()
        finally:
            doors.users -= 1
            if not doors.users:
                del self._before[provider, launch]

    async def give_back(self, provider: str, workflow_id: str, environment_id: str) -> None:
        """The environment is closed. Raises ``RPCError`` when the server cannot be told."""
        await release_place(self._client, provider, workflow_id, environment_id)
        self._room(provider).hurry()

    def _room(self, provider: str) -> _Room:
        return self._rooms.setdefault(provider, _Room(self._client, pool_workflow_id(provider)))

    async def _ask(self, provider: str, request: LeaseRequest, *, start: bool) -> PoolAnswer | None:
        if start:
            await start_pool(self._client, provider, ACQUIRE_SIGNAL, request)
            return PoolAnswer()
        async with self._asking:
            answer = await ask_pool(self._client, provider, request)
        if answer is not None:
            return answer
        try:
            pool = self._client.get_workflow_handle(pool_workflow_id(provider))
            await pool.signal(ACQUIRE_SIGNAL, request)
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            return None  # a pool that is gone has no limits any more
        return PoolAnswer()


class _Room:
    """Where attempts wait for one provider."""

    def __init__(self, client: Client, pool_id: str) -> None:
        self._client = client
        self._pool_id = pool_id
        self._waiting: set[_Waiting] = set()
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._looks = random.randrange(1000)
        """At the members; processes begin with different ones, where there are very many."""

    def hurry(self) -> None:
        """A place came free here: somebody here may have it."""
        self._news.set()

    async def wait(self, request: LeaseRequest) -> Grant | None:
        """What the pool gives; ``None`` when it knows nothing of the request any more."""
        future: asyncio.Future[Grant | None] = asyncio.get_running_loop().create_future()
        place = Place(workflow_id=request.workflow_id, environment_id=request.environment_id)
        mine = _Waiting(place, future)
        self._waiting.add(mine)
        self._news.set()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._look_after())
            self._task.add_done_callback(self._tell_failure)
        try:
            return await _unless_leaving(future)
        finally:
            self._waiting.discard(mine)

    def _tell_failure(self, task: asyncio.Task[None]) -> None:
        """A bug of ours must not keep anybody waiting for ever."""
        error = None if task.cancelled() else task.exception()
        for item in self._waiting if error is not None else ():
            if error is not None and not item.answer.done():
                item.answer.set_exception(error)

    async def _look_after(self) -> None:
        pause, looked = _FIRST_PAUSE, time.monotonic()
        while self._waiting:
            due = time.monotonic() - looked >= _MEMBERS_SECONDS
            looked = time.monotonic() if due else looked
            served = False
            try:
                served = await self._serve(with_members=due)
            except (RPCError, WorkflowQueryFailedError) as error:
                _log.debug("%s was not asked: %s", self._pool_id, error)  # nobody serves it now; asked again
            pause = _FIRST_PAUSE if served else min(pause * 1.5, _LAST_PAUSE)
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._news.wait()
            self._news.clear()

    async def _serve(self, *, with_members: bool) -> bool:
        """Ask for all that wait here; True when any of them may go on."""
        waiting = [item for item in self._waiting if not item.answer.done()]
        served = False
        for begin in range(0, len(waiting), _ASKED_AT_ONCE):
            some = waiting[begin : begin + _ASKED_AT_ONCE]
            asked = PlacesAsked(
                places=[item.place for item in some],
                with_members=with_members and begin == 0,
                look=self._looks,
            )
            found = await self._answer(asked)
            served = _tell(some, found) or served
            await self._drop_gone(found.members)
        self._looks += with_members
        return served

    async def _answer(self, asked: PlacesAsked) -> PlacesAnswer:
        pool = self._client.get_workflow_handle(self._pool_id)
        try:
            answer: PlacesAnswer = await pool.query(
                PLACES_QUERY,
                asked,
                result_type=PlacesAnswer,
                reject_condition=QueryRejectCondition.NOT_OPEN,
                rpc_timeout=_PATIENCE,
            )
        except WorkflowQueryRejectedError:
            return PlacesAnswer()  # it is over; who asks again goes on without it
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            return PlacesAnswer()
        return answer

    async def _drop_gone(self, members: Sequence[str]) -> None:
        """A place must not stay taken by an attempt that was killed; nobody misses it while there are others."""
        room = asyncio.Semaphore(_LOOKS_AT_ONCE)

        async def lives(workflow_id: str) -> bool:
            async with room:
                return await is_running(self._client, workflow_id)

        answers = await asyncio.gather(*map(lives, members))
        gone = [name for name, alive in zip(members, answers, strict=True) if not alive]
        pool = self._client.get_workflow_handle(self._pool_id)
        for begin in range(0, len(gone), _GONE_AT_ONCE):
            await pool.signal(GONE_SIGNAL, args=gone[begin : begin + _GONE_AT_ONCE])


def _tell(waiting: Sequence[_Waiting], found: PlacesAnswer) -> bool:
    """Pass on what the pool says; True when any of them need not wait any longer."""
    granted = {grant.key: grant for grant in found.granted}
    still, told = {place.key for place in found.waiting}, False
    for item in waiting:
        grant = granted.get(item.place.key)
        if item.answer.done() or (grant is None and item.place.key in still):
            continue
        item.answer.set_result(grant)
        told = True
    return told


async def _unless_leaving(answer: asyncio.Future[T]) -> T:
    """Raises ``ApplicationError`` when the worker is to leave: another one goes on waiting at once."""
    if not activity.in_activity():
        return await answer
    leaving = asyncio.create_task(activity.wait_for_worker_shutdown())
    try:
        await asyncio.wait((leaving, answer), return_when=asyncio.FIRST_COMPLETED)
    finally:
        leaving.cancel()
    if answer.done():
        return answer.result()
    raise ApplicationError(
        "its worker leaves", type="worker_leaves", category=ApplicationErrorCategory.BENIGN
    )
