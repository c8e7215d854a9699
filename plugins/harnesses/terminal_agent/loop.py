"""The loop: ask the model, carry out its tool calls, tell it what came of them.

The state is checkpointed after every model call and every tool call, so a worker that takes over
repeats at most the model call that was running.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from ....contracts.context import AttemptContext
from ....contracts.errors import StageFailure
from ....contracts.request import ModelSpec
from ....contracts.task import Message
from ...models.client import ModelClient, ModelResponse
from ...models.failures import is_context_overflow
from ...models.params import ModelParams
from ...models.prices import charge_of
from .budgets import CONTEXT_LIMIT, IDLE, error, time_issue, used_up
from .params import TerminalAgentParams
from .shortening import TARGET, conversation, next_shortening, size_of
from .state import AgentState, Outcome, Turn
from .steps import steps_so_far
from .toolbox import Toolbox
from .tools import TOOLS

FALLBACK_TOKENS_PER_CHARACTER = 0.3
"""Until the endpoint has reported how long the conversation is."""

CUT_OFF = "Your answer was cut off at its length limit. Go on in smaller pieces."
EMPTY = "Your answer was empty. Call a tool, or call finish when you are done."


@dataclass
class AgentLoop:
    """Drives one execution to its ending, which is in ``state``."""

    client: ModelClient
    toolbox: Toolbox
    params: TerminalAgentParams
    model: ModelSpec
    generation: ModelParams
    context: AttemptContext
    start: Sequence[Message]
    state: AgentState
    _mark: float = field(default_factory=time.monotonic)

    async def run(self) -> None:
        """Go on until the agent is done or a budget is used up. Raises ``StageFailure`` of the model."""
        while not self.state.ending:
            turn = self.state.turns[-1] if self.state.turns else None
            if turn is None or turn.concluded:
                self._charge_time()
                self.state.issue = used_up(self.state, self.params)
                turn = None if self.state.issue else await self._take_turn()
            if turn is not None:
                await self._answer_calls(turn)
                self._conclude(turn)
            if self.state.issue is not None:
                self.state.ending = self.state.issue.code
            await self._save()

    async def _take_turn(self) -> Turn | None:
        """One model call; ``None`` when it was not possible any more, and ``state.issue`` says why."""
        number = len(self.state.turns) + 1
        before = self.state.shortening
        self._shorten_in_advance()
        while True:
            messages = conversation(self.start, self.state.turns, self.state.shortening)
            self.context.progress(f"turn {number}: waiting for {self.model.id}")
            try:
                async with asyncio.timeout(self._seconds_left()) as limit:
                    response = await self.client.generate(messages, TOOLS, self.generation)
                break
            except TimeoutError:
                if not limit.expired():
                    raise
                self.state.issue = time_issue(self.params)
                return None
            except StageFailure as failure:
                if not is_context_overflow(failure.issue):
                    raise
                if not self._shorten_more():
                    message = f"the conversation cannot be shortened any more: {failure.issue.message}"
                    self.state.issue = error(CONTEXT_LIMIT, message)
                    return None
        changed = self.state.shortening if self.state.shortening != before else None
        turn = self._turn(response, size_of(messages), number)
        turn.shortening = changed
        self.state.turns.append(turn)
        await self._save()
        self._record_last()
        return turn

    def _turn(self, response: ModelResponse, sent_characters: int, number: int) -> Turn:
        """Calls get ids of our own where the endpoint gave none, or the same one twice."""
        seen: set[str] = set()
        calls = []
        for position, call in enumerate(response.tool_calls, start=1):
            if not call.id or call.id in seen:
                call = call.model_copy(update={"id": f"call_{number}_{position}"})
            seen.add(call.id)
            calls.append(call)
        charge = charge_of(response, sent_characters, self.model.id, self.params.prices)
        return Turn(
            response=response.model_copy(update={"tool_calls": calls}),
            finished_at=time.time(),
            sent_characters=sent_characters,
            tokens=charge.tokens,
            estimated=charge.estimated,
            cost_usd=charge.cost_usd,
        )

    async def _answer_calls(self, turn: Turn) -> None:
        number = len(self.state.turns)
        for position, call in enumerate(turn.response.tool_calls, start=1):
            if position <= len(turn.outcomes):
                continue  # carried out before a worker died
            if any(outcome.finished for outcome in turn.outcomes):
                outcome = Outcome(call_id=call.id, text="Not carried out: you had finished.")
            else:
                self.context.progress(f"turn {number}: {call.name}")
                outcome = await self.toolbox.carry_out(call, f"t{number}-c{position}", self._seconds_left)
            turn.outcomes.append(outcome)
            await self._save()
        if turn.response.tool_calls:
            self._record_last()

    def _conclude(self, turn: Turn) -> None:
        """Whether the turn was the last one, and what the model is told beside its tools' outputs."""
        turn.concluded = True
        response = turn.response
        finished = next((outcome for outcome in turn.outcomes if outcome.finished), None)
        if finished is not None:
            self.state.ending = "finish"
            self.state.answer = finished.answer or self._last_text()
            return
        cut_off = response.stop_reason == "length"
        if response.content.strip() and not response.tool_calls and not cut_off:
            self.state.ending, self.state.answer = "answer", response.content
            return
        if any(outcome.valid for outcome in turn.outcomes):
            self.state.idle_turns = 0
            return
        self.state.idle_turns += 1
        if self.state.idle_turns >= self.params.max_idle_turns:
            count = self.state.idle_turns
            message = f"{count} turns in a row without a valid tool call or an answer (max_idle_turns)"
            self.state.issue = error(IDLE, message)
        elif cut_off or response.is_empty:
            turn.note = CUT_OFF if cut_off else EMPTY
            self._record_last()

    def _last_text(self) -> str | None:
        texts = (turn.response.content for turn in reversed(self.state.turns))
        return next((text for text in texts if text.strip()), None)

    def _shorten_in_advance(self) -> None:
        """Before the window is full, as far as can be told."""
        window = self.params.context_tokens
        if window is None:
            return
        window -= self.generation.max_tokens or 0
        if self._expected_tokens(conversation(self.start, self.state.turns, self.state.shortening)) < window:
            return
        for candidate in next_shortening(self.state.turns, self.state.shortening):
            self.state.shortening = candidate
            messages = conversation(self.start, self.state.turns, candidate)
            if self._expected_tokens(messages) < TARGET * window:
                return

    def _shorten_more(self) -> bool:
        """After the endpoint refused the conversation; False when nothing is left to shorten."""
        stronger = next_shortening(self.state.turns, self.state.shortening, stronger=True)
        if stronger:
            self.state.shortening = stronger[0]
        return bool(stronger)

    def _expected_tokens(self, messages: Sequence[Message]) -> float:
        """By what the endpoint counted last."""
        last = self.state.turns[-1] if self.state.turns else None
        prompt = last.response.usage.prompt_tokens if last else None
        if last is None or not prompt or not last.sent_characters:
            return size_of(messages) * FALLBACK_TOKENS_PER_CHARACTER
        return size_of(messages) * prompt / last.sent_characters

    def _seconds_left(self) -> float | None:
        if self.params.max_seconds is None:
            return None
        return max(0.0, self.params.max_seconds - self.state.seconds - (time.monotonic() - self._mark))

    def _charge_time(self) -> None:
        now = time.monotonic()
        self.state.seconds += now - self._mark
        self._mark = now

    async def _save(self) -> None:
        self._charge_time()
        await self.context.save_checkpoint(self.state.model_dump(mode="json", exclude_defaults=True))

    def _record_last(self) -> None:
        """Show the latest turn; a step that is shown again replaces the one before."""
        shown = 1 + bool(self.state.turns[-1].note)
        for step in steps_so_far(self.start, self.state.turns)[-shown:]:
            self.context.record_step(step)
