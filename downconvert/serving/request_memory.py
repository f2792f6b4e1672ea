"""The memory of all requests under way, shared by their clients' addresses.

A request takes memory as its bytes arrive. Once it is parsed, it also takes what the elements of
its arrays take. An address takes at most half of what it leaves to others, so a client of another
address finds memory, whatever requests of this one wait for.

Not here: responses that wait for their clients (unread.py)."""

from collections import Counter
from threading import Lock
from typing import Final

from .limits import FREE_SIZE

# Bytes that an element of a request's arrays takes in memory, with what its handler makes of it.
# Partitions of a fetch take a little more, configurations a little less.
ELEMENT_SIZE: Final = 512
# Clients that have not logged in have this part of the memory of requests, for all of them.
LOGIN_PART: Final = 16


class RequestMemory:
    """The bytes of all requests under way. Thread-safe.

    free: bytes that are left; negative while one request grows beyond the limit.

    If an address has taken its part, one request of it may still grow while there is memory. If
    there is none, one request of all may. So incomplete requests cannot block each other for
    ever."""

    def __init__(self, size: int) -> None:
        self._lock = Lock()
        self.free = size
        self._by_address = Counter[str]()  # bytes that are taken
        self._favoured: dict[str, OneRequest] = {}  # by address, the one that may still grow
        self._beyond: OneRequest | None = None  # the one that grows beyond the limit

    def of(self, address: str) -> "OneRequest":
        """For the requests of one connection, one at a time."""
        return OneRequest(self, address)

    def take(self, request: "OneRequest", size: int, *, may_wait: bool = True) -> bool:
        """Takes `size` bytes. Returns whether the address had room for them. If it had not, and the
        request `may_wait`, takes nothing, unless it is the one that may still grow."""
        with self._lock:
            address = request.address
            taken, left = self._by_address[address] + size, self.free - size
            has_room = 2 * taken <= left
            if not has_room and not self._favour(request, left) and may_wait:
                return False
            self.free = left
            self._by_address[address] = taken
            return has_room or may_wait

    def release(self, request: "OneRequest", size: int) -> None:
        """Gives back all bytes that the request has taken."""
        with self._lock:
            address = request.address
            self.free += size
            self._by_address[address] -= size
            if not self._by_address[address]:
                del self._by_address[address]
            if self._favoured.get(address) is request:
                del self._favoured[address]
            if self._beyond is request:
                self._beyond = None

    def _favour(self, request: "OneRequest", left: int) -> bool:
        """Whether this is the one that may still grow, so that so many bytes are left."""
        if self._favoured.get(request.address, request) is not request:
            return False
        if left < 0:
            if self._beyond not in (None, request):
                return False
            self._beyond = request
        self._favoured[request.address] = request
        return True


class OneRequest:
    """The memory of one request, from its first bytes to `release`. Then it is for another one.

    taken: bytes, of its frame and of its elements."""

    __slots__ = ("_elements", "_memory", "address", "taken")

    def __init__(self, memory: RequestMemory, address: str) -> None:
        self._memory = memory
        self.address = address
        self.taken = 0
        self._elements = 0  # bytes of it

    def take(self, size: int) -> bool:
        """Takes `size` more bytes. False: there are too few now, and nothing was taken."""
        if not self._memory.take(self, size):
            return False
        self.taken += size
        return True

    def may_be_handled(self) -> bool:
        """Whether there is memory for the elements of a whole request. How much they take is known
        when they are parsed. Until then, any free byte is enough."""
        return not self.taken or self._memory.take(self, 0)

    def charge(self, elements: int) -> bool:
        """Counts the elements of the parsed request, which is handled now. Returns whether there
        was memory for them. Few elements are not counted, as few bytes are not."""
        size = elements * ELEMENT_SIZE
        if size <= FREE_SIZE or self._elements:
            return True
        has_room = self._memory.take(self, size, may_wait=False)
        self._elements = size
        self.taken += size
        return has_room

    def release(self) -> None:
        """Gives back all that it has taken."""
        if self.taken:
            self._memory.release(self, self.taken)
            self.taken = self._elements = 0
