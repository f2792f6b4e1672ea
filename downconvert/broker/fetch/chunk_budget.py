"""The chunk size of a conversion: large while few conversions are under way, small otherwise.

A conversion holds four chunks until its client has taken everything. Large chunks need less time
for each byte. With small chunks, a thousand slow clients hold at most 64 KiB each. So the first few
conversions under way get large chunks, and all others get small ones. The memory is bounded, and a
single client gets full speed. The chunk size does not change the bytes sent.

Not here: the other options of a policy (conversions.py)."""

from dataclasses import replace
from threading import Lock
from typing import Final

from downconvert import ConversionPolicy
from downconvert.conversion.policy import CHUNK_SIZE
from records.units import KiB

LARGE: Final = 128 * KiB
SMALL: Final = 8 * KiB
LARGE_MAX: Final = 16  # clients with large chunks at a time: 8 MiB in all


class ChunkBudget:
    """The clients that have large chunks, by their ids. Thread-safe.

    small: the policy of all others. A policy that sets its own chunk size always gets that size."""

    def __init__(self, policy: ConversionPolicy) -> None:
        usual = policy.chunk_size == CHUNK_SIZE
        self._large = replace(policy, chunk_size=LARGE) if usual else policy
        self.small = replace(policy, chunk_size=SMALL) if usual else policy
        self._clients: set[int] = set()
        self._lock = Lock()

    def policy_for(self, client_id: int) -> ConversionPolicy:
        """The policy for the conversions of one response, with its chunk size."""
        with self._lock:
            if client_id not in self._clients:
                if len(self._clients) >= LARGE_MAX:
                    return self.small
                self._clients.add(client_id)
            return self._large

    def release(self, client_id: int) -> None:
        """Called when the client has its response, or has gone."""
        with self._lock:
            self._clients.discard(client_id)
