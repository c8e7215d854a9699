"""Model clients: one small interface over three wire protocols."""

from .client import ModelClient, ModelResponse, require_output
from .endpoint import choose_protocol
from .factory import client_for_attempt, create_model_client, model_problem
from .params import ModelParams, parse_model_params
from .reachability import check_reachable
from .script_file import Conversation
from .scripted import RecordingClient, ScriptedClient

__all__ = [
    "Conversation",
    "ModelClient",
    "ModelParams",
    "ModelResponse",
    "RecordingClient",
    "ScriptedClient",
    "check_reachable",
    "choose_protocol",
    "client_for_attempt",
    "create_model_client",
    "model_problem",
    "parse_model_params",
    "require_output",
]
