"""Model clients: one small interface over three wire protocols."""

from .client import ModelClient, ModelResponse, require_output
from .endpoint import choose_protocol
from .http_client import create_model_client
from .params import ModelParams, parse_model_params
from .reachability import check_reachable
from .scripted import RecordingClient, ScriptedClient

__all__ = [
    "ModelClient",
    "ModelParams",
    "ModelResponse",
    "RecordingClient",
    "ScriptedClient",
    "check_reachable",
    "choose_protocol",
    "create_model_client",
    "parse_model_params",
    "require_output",
]
