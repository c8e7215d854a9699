"""Planning beside the event loop: plans are made by hooks of extensions, which may block."""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from typing import TypeVar

from temporalio.exceptions import ApplicationError

from ..contracts.errors import StageFailure
from ..contracts.issues import IssueCode, IssuePhase
from .own_thread import LeftBehindError, in_own_thread
from .planner import PLANNING
from .services import RequestComponents

T = TypeVar("T")


async def planned(components: RequestComponents, plan: Callable[[], T]) -> T:
    """What ``plan`` returns. Raises what it raises.

    Raises ``StageFailure`` (FATAL, phase ``setup``) that names who was planning when it does not end, and
    ``ApplicationError`` when hooks of other requests have left no room for it in this process.
    """
    context = contextvars.copy_context()
    try:
        return await in_own_thread(plan, "planning", context=context)
    except LeftBehindError as error:
        components.unended_plans += 1
        owner = context.get(PLANNING, "the attempt")
        raise _failure(f"{owner} could not plan: {error}") from error
    except ApplicationError:
        if not components.unended_plans:
            raise
        # Tried again it would wait for its like, perhaps for ever.
        count = components.unended_plans
        raise _failure(f"it is not planned: {count} others of this run did not end planning") from None


def _failure(message: str) -> StageFailure:
    return StageFailure.fatal(IssuePhase.SETUP, IssueCode.SETUP_FAILED, message)
