"""The parameters of a model: what the client itself obeys, and what goes into the request body."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from ...contracts.component import LocalPath
from ...contracts.errors import ConfigurationError
from ...contracts.request import JsonMap, ModelSpec
from ..params import describe_validation_error


class ModelParams(BaseModel):
    """``model.params``. Keys that are not listed here are sent in the request body as they are."""

    model_config = ConfigDict(extra="allow", allow_inf_nan=False)
    __pydantic_extra__: dict[str, JsonValue]

    request_timeout_seconds: float = Field(default=600.0, gt=0)
    """Limit of one HTTP request from connecting to the last byte; never sent."""
    max_attempts: int = Field(default=7, ge=1, le=100)
    """HTTP requests per call at most, the first included; never sent. Seven are spread over half a minute at least."""
    retry_min_delay_seconds: float = Field(default=1.0, ge=0)
    """Upper end of the first wait; it doubles with each try; never sent."""
    retry_max_delay_seconds: float = Field(default=60.0, ge=0)
    """No wait is longer, whatever ``Retry-After`` says; never sent."""

    script: LocalPath | None = None
    """With protocol ``scripted``: the file that answers; by default one for the built-in tasks."""
    record: LocalPath | None = None
    """Append every answer to this file, as a script to replay; never sent."""

    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = Field(default=None, ge=1)
    """Limit of the answer; sent under the protocol's own name for it."""
    stop: str | list[str] | None = None
    extra_body: JsonMap = Field(default_factory=dict)
    """More keys of the request body; they win over all others."""

    @property
    def body_extras(self) -> JsonMap:
        """Keys for the request body that the client does not interpret."""
        return {**self.__pydantic_extra__, **self.extra_body}

    @property
    def stop_list(self) -> list[str]:
        """``stop`` as a list."""
        if self.stop is None:
            return []
        return [self.stop] if isinstance(self.stop, str) else self.stop


def parse_model_params(spec: ModelSpec) -> ModelParams:
    """The typed ``spec.params``. Raises ``ConfigurationError`` that names the wrong key."""
    try:
        params = ModelParams.model_validate(spec.params)
    except ValidationError as error:
        raise ConfigurationError(describe_validation_error(error, ModelParams, "model.params")) from None
    if params.body_extras.get("stream"):
        raise ConfigurationError("model.params.stream: answers are read as a whole; leave it out")
    for key in ("model", "messages", "input"):
        if key in params.body_extras:
            raise ConfigurationError(f"model.params.{key}: set by the client; it cannot be a parameter")
    return params
