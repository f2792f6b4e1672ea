"""The places for connections, limited in total and per address.

A client keeps its place once it has logged in, or if it need not log in. If all places are taken, a
new client gets the place of one that has not logged in yet: the oldest such client at the address
with the most of them. So nobody can block other clients by connecting or by guessing passwords.

Not here: the numbers (limits.py, and the gateway's config.py)."""

from collections import Counter
from collections.abc import Callable
from threading import Lock
from typing import Final

from downconvert.protocol.errors import BrokerError

EVICTED: Final = "it has not logged in, and its place is another's"


class NoPlaceError(BrokerError):
    """All places belong to clients that keep them."""


def _nothing() -> None:
    """The callback before a connection has set its own."""


class Place:
    """The place of one connection. Thread-safe. is_held: whether the connection still has it."""

    __slots__ = ("_places", "address", "is_held", "on_evicted")

    def __init__(self, places: "Places", address: str) -> None:
        self.address = address
        self.on_evicted: Callable[[], object] = _nothing  # called if another connection takes it
        self._places = places
        self.is_held = True

    def settle(self) -> None:
        """The client has logged in, or need not. It keeps the place."""
        self._places._settle(self)

    def release(self) -> None:
        """The connection has ended."""
        self._places._release(self)
        self.on_evicted = _nothing  # breaks a reference cycle: the connection refers to this place


class Places:
    """The places of one server. Thread-safe. `on_evicted` is called by the thread that takes the
    place."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._total = self._peak = 0
        self._by_address = Counter[str]()
        self._unsettled: dict[str, dict[Place, None]] = {}  # by address, the oldest first

    def __len__(self) -> int:
        return self._total

    def take_peak(self) -> int:
        """The highest number of places taken at a time since the last call."""
        with self._lock:
            peak, self._peak = self._peak, self._total
        return peak

    def take(self, address: str, places_max: int, address_max: int) -> Place:
        """Takes a place, within the total limit and the limit of this address. Raises
        NoPlaceError."""
        evicted = None
        with self._lock:
            if self._by_address[address] >= address_max:
                evicted = self._evict_one_of(address, f"it has {address_max} connections already")
            elif self._total >= places_max:
                most = max(self._unsettled, key=lambda one: len(self._unsettled[one]), default="")
                evicted = self._evict_one_of(most, f"there are {places_max} connections already")
            place = Place(self, address)
            self._by_address[address] += 1
            self._total += 1
            self._peak = max(self._peak, self._total)
            self._unsettled.setdefault(address, {})[place] = None
        if evicted is not None:
            evicted.on_evicted()
        return place

    def _evict_one_of(self, address: str, refusal: str) -> Place:
        """Evicts the oldest unsettled place. The caller still has to call its `on_evicted`."""
        place = next(iter(self._unsettled.get(address, ())), None)
        if place is None:
            raise NoPlaceError(refusal)
        self._take_back(place)
        return place

    def _settle(self, place: Place) -> None:
        # The client has usually settled, or its place was evicted meanwhile.
        if place not in self._unsettled.get(place.address, ()):
            return
        with self._lock:
            self._forget(place)

    def _release(self, place: Place) -> None:
        with self._lock:
            self._take_back(place)

    def _take_back(self, place: Place) -> None:
        if not place.is_held:
            return
        place.is_held = False
        self._forget(place)
        self._total -= 1
        self._by_address[place.address] -= 1
        if not self._by_address[place.address]:
            del self._by_address[place.address]

    def _forget(self, place: Place) -> None:
        unsettled = self._unsettled.get(place.address, {})
        unsettled.pop(place, None)
        if not unsettled:
            self._unsettled.pop(place.address, None)
