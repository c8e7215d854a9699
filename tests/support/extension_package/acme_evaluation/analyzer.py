"""Counts answers that are much too long."""

from pydantic import Field

from agentcompass.contracts import AnalysisFinding, Analyzer, AttemptContext, Contract, RunResult


class AnswerLengthParams(Contract):
    """Parameters of the analyzer."""

    max_chars: int = Field(default=200, ge=0)


class AnswerLength(Analyzer[AnswerLengthParams]):
    """Reports the length of answers above ``max_chars``."""

    id = "answer_length"
    description = "Answers that are too long"
    Params = AnswerLengthParams

    async def analyze(self, result: RunResult, context: AttemptContext) -> list[AnalysisFinding]:
        length = len(str(result.final_answer or ""))
        if length <= self.params.max_chars:
            return []
        return [AnalysisFinding(label="long_answer", value=length)]
