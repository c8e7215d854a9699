"""AgentCompass on Temporal: durable evaluation of LLM agents on benchmarks."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .cli.sdk import (
        EvaluationFailedError,
        async_run_evaluation,
        async_run_evaluation_request,
        build_run_request,
        run_evaluation,
        run_evaluation_request,
    )
    from .contracts.launch import RequestResult

__version__ = "2.0.0a1"

__all__ = [
    "EvaluationFailedError",
    "RequestResult",
    "__version__",
    "async_run_evaluation",
    "async_run_evaluation_request",
    "build_run_request",
    "run_evaluation",
    "run_evaluation_request",
]


def __getattr__(name: str) -> Any:
    """Import the SDK when it is first used: every command line imports this package."""
    if name == "RequestResult":
        from .contracts.launch import RequestResult

        return RequestResult
    if name in __all__:
        from .cli import sdk

        return getattr(sdk, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
