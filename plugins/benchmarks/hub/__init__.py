"""Data sets of the Hugging Face hub: found, fetched once, verified, and kept for work without a network."""

from .repository import HubRepository
from .splits import files_of_split

__all__ = ["HubRepository", "files_of_split"]
