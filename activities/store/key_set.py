"""A set of 8-byte hashes in one array: a run of millions of events stays within tens of megabytes."""

from __future__ import annotations

import hashlib
from array import array


class KeySet:
    """Open addressing over an array of unsigned 64-bit integers; 0 is an empty slot.

    Two of n keys are taken for one another with a probability of about n² / 2⁶⁵: one in two
    million for five million events.
    """

    def __init__(self, capacity: int = 1024) -> None:
        self._slots = array("Q", bytes(8 * capacity))
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __contains__(self, key: str) -> bool:
        return self._slots[self._slot(self._slots, _hash(key))] != 0

    def add(self, key: str) -> bool:
        """Add ``key``; False when it was there."""
        digest = _hash(key)
        slot = self._slot(self._slots, digest)
        if self._slots[slot]:
            return False
        self._slots[slot] = digest
        self._count += 1
        if 3 * self._count > 2 * len(self._slots):
            self._grow()
        return True

    @staticmethod
    def _slot(slots: array[int], digest: int) -> int:
        """Where ``digest`` is, or belongs."""
        mask = len(slots) - 1
        slot = digest & mask
        while slots[slot] not in (0, digest):
            slot = (slot + 1) & mask
        return slot

    def _grow(self) -> None:
        bigger = array("Q", bytes(16 * len(self._slots)))
        for digest in self._slots:
            if digest:
                bigger[self._slot(bigger, digest)] = digest
        self._slots = bigger


def _hash(key: str) -> int:
    digest = hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little") or 1
