"""Channels that take what they are given in different ways, and keep it."""

import random
from collections.abc import Iterable

from records import RecordsError

SINGLE = 2000  # bytes: several messages


class Everything:
    """Takes all of it."""

    def __init__(self) -> None:
        self.taken = bytearray()
        self.writes = 0

    def write(self, data: memoryview) -> int:
        self.writes += 1
        self.taken += data
        return len(data)


class OneByte(Everything):
    """Takes a byte, and every other time nothing. After `SINGLE` bytes: a few at a time."""

    def write(self, data: memoryview) -> int:
        self.writes += 1
        if self.writes % 2:
            raise BlockingIOError
        taken = data[: 1 if len(self.taken) < SINGLE else 13]
        self.taken += taken
        return len(taken)


class RandomSizes(Everything):
    """Takes some of it, or nothing, or is interrupted with nothing taken."""

    def __init__(self, seed: int = 7) -> None:
        super().__init__()
        self._random = random.Random(seed)

    def write(self, data: memoryview) -> int | None:
        self.writes += 1
        if self._random.random() < 0.2:
            return None
        size = self._random.randint(0, len(data))
        self.taken += data[:size]
        return size


def sent(send, channel=None) -> bytes:
    """All that a send writes."""
    channel = channel or Everything()
    while not send.completed:
        send.write_to(channel)
    return bytes(channel.taken)


def until_error(pieces: Iterable[bytes]) -> tuple[bytes, RecordsError | None]:
    """The output before an error, and the error."""
    good = bytearray()
    try:
        for piece in pieces:
            good += piece
    except RecordsError as error:
        return bytes(good), error
    return bytes(good), None
