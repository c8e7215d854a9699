"""An HTTP endpoint between an agent and its model: it has the key, counts, and stops at budgets."""

from .calls import ProxiedCall
from .params import LOOPBACK, ModelProxyParams
from .proxy import ModelProxy

__all__ = ["LOOPBACK", "ModelProxy", "ModelProxyParams", "ProxiedCall"]
