"""The boundary between our code and Temporal: which exception means what to the engine.

* an ``ApplicationError`` with an Issue: a phase failed, the workflow decides (never retried here)
* an ``ApplicationError`` with an exit code: the request cannot be carried out as written
* an operating-system or RPC error of our own bookkeeping: infrastructure, retried by Temporal
* anything else: a bug of ours, reported as ``internal_error`` instead of being retried for ever
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from temporalio.exceptions import ApplicationError, ApplicationErrorCategory, FailureError
from temporalio.service import RPCError

from ..contracts.errors import AgentCompassError, StageFailure
from ..contracts.issues import Issue
from .classification import describe, tidy
from .redaction import REDACTOR
from .retry_log import log_retry

SelfT = TypeVar("SelfT")
InputT = TypeVar("InputT")
OutputT = TypeVar("OutputT")
Activity = Callable[[SelfT, InputT], Awaitable[OutputT]]

INFRASTRUCTURE = (OSError, RPCError, TimeoutError)


_MOST_BESIDE = 50
"""Issues beside the one that ended a phase; a failure must stay small."""


def failed(issue: Issue, beside: Sequence[Issue] = ()) -> ApplicationError:
    """The failure that carries an issue to the workflow; its type is the issue's code.

    ``beside`` are issues that were reported before the phase failed. Benign: an outcome of a task, which
    the SDK need not log with a traceback.
    """
    details = [found.model_dump(mode="json") for found in (issue, *beside[:_MOST_BESIDE])]
    return ApplicationError(
        issue.message,
        *details,
        type=issue.code,
        non_retryable=True,
        category=ApplicationErrorCategory.BENIGN,
    )


def activity_boundary(function: Activity[SelfT, InputT, OutputT]) -> Activity[SelfT, InputT, OutputT]:
    """Translate what an activity raises; see the module's docstring."""

    @functools.wraps(function)
    async def wrapped(self: SelfT, input: InputT) -> OutputT:
        try:
            return await function(self, input)
        except (asyncio.CancelledError, FailureError):
            raise
        except INFRASTRUCTURE as error:
            log_retry(error, _run_dir_of(input))
            raise
        except StageFailure as error:
            raise failed(tidy(error.issue)) from None
        except AgentCompassError as error:
            raise ApplicationError(
                REDACTOR.text(str(error)),
                error.exit_code,
                type=type(error).__name__,
                non_retryable=True,
                category=ApplicationErrorCategory.BENIGN,
            ) from None
        except Exception as error:  # a bug of ours: reported once instead of being retried for ever
            raise ApplicationError(
                REDACTOR.text(describe(error)), type="internal_error", non_retryable=True
            ) from error

    return wrapped


def _run_dir_of(input: object) -> str | None:
    """The run that an activity's input belongs to: named by itself, or by its ``ref``."""
    found = getattr(getattr(input, "ref", input), "run_dir", None)
    return found if isinstance(found, str) else None
