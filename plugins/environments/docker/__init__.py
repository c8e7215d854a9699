"""The environment ``docker``: a container for each sandbox, on a local or remote engine."""

from .params import DockerMount, DockerParams
from .provider import Docker

__all__ = ["Docker", "DockerMount", "DockerParams"]
