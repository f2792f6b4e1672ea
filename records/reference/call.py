"""One call of the kernel: its window on the source, its target, and the reason for its return.

Not here: the meaning of the bytes (items.py), the order of items (transcoder.py)."""

from dataclasses import dataclass

from records.kernel import Buffer, Outcome


class Stop(Exception):  # noqa: N818  (it is no error)
    """Ends the call with an outcome."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome)
        self.outcome = outcome


class Damaged(Exception):  # noqa: N818  (it becomes an outcome, too)
    """The item at the call's position is damaged."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Window:
    """The call may read `source[at:end]`. The whole source continues to `stop`.

    `at` moves from item to item. It is after `end` if a dropped entry ends there."""

    def __init__(self, source: Buffer, start: int, end: int, remaining: int) -> None:
        self.source = memoryview(source).cast("B")
        if not 0 <= start <= end <= len(self.source):
            raise ValueError("the window is not inside of the source")
        if remaining < 0:
            raise ValueError("remaining is negative")
        self.start = self.at = start
        self.stop = start + remaining
        self.end = min(end, self.stop)

    @property
    def remaining(self) -> int:
        return self.stop - self.at

    def need(self, size: int) -> None:
        """Stops with SOURCE if the next `size` bytes are not all in the window."""
        if size > self.end - self.at:
            raise Stop(Outcome.SOURCE)


@dataclass(frozen=True, slots=True)
class Call:
    """The arguments of a call, and whether it makes rows or messages."""

    window: "Window"
    target: "Room"
    wants_rows: bool


class Room:
    """A target that only counts bytes. Only whole items are taken."""

    def __init__(self, room: int) -> None:
        if room < 0:
            raise ValueError("the room is negative")
        self._room = room
        self.produced = 0

    def put(self, item: bytes) -> None:
        if len(item) > self._room - self.produced:
            raise Stop(Outcome.TARGET)
        self.produced += len(item)


class Target(Room):
    """`target[at:limit]`: room for items."""

    def __init__(self, target: Buffer, at: int, limit: int, source: Buffer) -> None:
        self._target = memoryview(target).cast("B")
        if not 0 <= at <= limit <= len(self._target):
            raise ValueError("the room is not inside of the target")
        if memoryview(source).obj is memoryview(target).obj:  # they may overlap as views of one
            raise ValueError("source and target overlap")
        super().__init__(limit - at)
        self._target = self._target[at:limit]

    def put(self, item: bytes) -> None:
        at = self.produced
        super().put(item)
        self._target[at : self.produced] = item
