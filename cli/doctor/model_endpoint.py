"""The model endpoint, when one is named."""

from __future__ import annotations

from pydantic import ValidationError

from ...contracts.errors import ConfigurationError
from ...contracts.request import ModelSpec
from ...plugins.models.reachability import check_reachable
from ...plugins.params import describe_validation_error
from .finding import Finding, ok, unreachable

AREA = "model"


def model_spec(base_url: str, protocol: str) -> ModelSpec:
    """The endpoint that the flags name. Raises ``ConfigurationError``."""
    try:
        return ModelSpec(id="any", base_url=base_url, api_protocol=protocol)
    except ValidationError as error:
        raise ConfigurationError(
            describe_validation_error(error, ModelSpec, "the flags of the model")
        ) from None


async def check_model(spec: ModelSpec) -> Finding:
    """Whether it answers HTTP in any way; no key is sent and no token spent."""
    problem = await check_reachable(spec)
    shown, _, query = spec.base_url.partition("?")
    if problem is None:
        return ok(AREA, "endpoint", f"{shown} answers")
    reason = problem.removeprefix(f"the endpoint of model {spec.id!r} ")
    reason = reason.replace(f"?{query}", "") if query else reason  # a key may be in there
    advice = "check the address, a proxy or VPN in between, and that the endpoint runs"
    return unreachable(AREA, "endpoint", reason, advice)
