"""Conversions of shared chunks that take several turns, and the clients that wait for them.

Their number is bounded, because each holds the bytes that it has made so far. A conversion that a
client waits for is never dropped, because otherwise clients of many chunks would drop each other's
conversions for ever. A conversion without clients is dropped when its place is needed. If clients
wait for all conversions, the next client converts for itself.

Not here: a conversion (converted_chunk.py), caching its result (conversion_cache.py)."""

from collections import OrderedDict
from collections.abc import Iterator
from typing import Final

from .converted_chunk import ChunkKey, Converting

COUNT_MAX: Final = 64


class ConversionsUnderWay:
    """Not thread-safe, because its owner has a lock. A client waits for one conversion at a
    time."""

    __slots__ = ("_by_key", "_count_max", "_of_client")

    def __init__(self, count_max: int = COUNT_MAX) -> None:
        self._count_max = count_max
        self._by_key: OrderedDict[ChunkKey, Converting] = OrderedDict()  # the oldest first
        self._of_client: dict[int, Converting] = {}

    def __len__(self) -> int:
        return len(self._by_key)

    def __iter__(self) -> Iterator[ChunkKey]:
        return iter(self._by_key)

    def __contains__(self, key: ChunkKey) -> bool:
        return key in self._by_key

    @property
    def clients_count(self) -> int:
        """The number of waiting clients."""
        return len(self._of_client)

    def get(self, key: ChunkKey) -> Converting | None:
        return self._by_key.get(key)

    def has_room(self) -> bool:
        """Whether another conversion may be added. If needed, drops one that no client waits
        for."""
        if len(self._by_key) < self._count_max:
            return True
        for key, converting in self._by_key.items():
            if not converting.clients:
                del self._by_key[key]
                return True
        return False

    def add(self, key: ChunkKey, converting: Converting) -> None:
        self._by_key[key] = converting

    def remove(self, key: ChunkKey, converting: Converting) -> None:
        """The conversion is finished, or has failed. Its clients notice at their next turn."""
        if self._by_key.get(key) is converting:
            del self._by_key[key]

    def wait(self, client: int, converting: Converting) -> None:
        """The client waits for the result."""
        if self._of_client.get(client) is not converting:
            self.leave(client)
            self._of_client[client] = converting
            converting.clients.add(client)

    def leave(self, client: int) -> None:
        """The client no longer waits, because it has its response or has gone."""
        converting = self._of_client.pop(client, None)
        if converting is not None:
            converting.clients.discard(client)
