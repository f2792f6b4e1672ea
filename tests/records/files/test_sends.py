"""Bytes that wait for a channel, and sends that hold something."""

from typing import Any

import pytest

from records.files.sends import PendingBytes, Send, close, write_all


class Channel:
    """Takes so many bytes a write; None: it raises."""

    def __init__(self, *takes: int | None) -> None:
        self._takes = list(takes)
        self.data = b""
        self.writes = 0

    def send(self, data: memoryview) -> int:
        self.writes += 1
        taken = self._takes.pop(0) if self._takes else len(data)
        if taken is None:
            raise ConnectionResetError
        self.data += data[:taken]
        return min(taken, len(data))


def test_bytes_that_a_channel_did_not_take_are_written_first_the_next_time() -> None:
    pending = PendingBytes(memoryview(b"0123456789"))
    channel = Channel(3, 0, 2)
    assert [pending.write_to(channel) for _ in range(5)] == [3, 0, 2, 5, 0]
    assert (channel.data, channel.writes, bytes(pending.left)) == (b"0123456789", 4, b"")


def test_a_write_is_limited_to_the_allowed_size() -> None:
    pending, channel = PendingBytes(), Channel()
    pending.left = memoryview(b"01234")
    assert [pending.write_to(channel, 2) for _ in range(3)] == [2, 2, 1]
    assert channel.data == b"01234"


def test_an_error_of_one_channel_loses_nothing_for_the_next() -> None:
    pending = PendingBytes(memoryview(b"0123"))
    with pytest.raises(ConnectionResetError):
        pending.write_to(Channel(None))
    other = Channel(2)
    assert pending.write_to(other) == 2
    third = Channel()
    assert pending.write_to(third) == 2
    assert (other.data, third.data) == (b"01", b"23")


def test_waiting_bytes_are_released_with_their_owner() -> None:
    """At once, not at the next garbage collection, because it may be large."""
    buffer = bytearray(b"converted")
    pending = PendingBytes(memoryview(buffer))
    with pytest.raises(BufferError):
        buffer.clear()  # it still waits
    del pending
    buffer.clear()
    assert not buffer


def test_waiting_bytes_are_copied_once_and_survive_their_buffer() -> None:
    buffer = bytearray(b"0123")
    pending = PendingBytes(memoryview(buffer))
    channel = Channel(1)
    pending.write_to(channel)
    pending.copy()
    buffer[:] = b"----"
    copied = pending.left.obj
    pending.copy()
    assert pending.left.obj is copied
    pending.write_to(channel)
    assert channel.data == b"0123"
    pending.copy()
    assert not pending.left


class Holding:
    size = 0
    completed = True

    def __init__(self) -> None:
        self.is_closed = False

    def write_to(self, _channel: Any, budget: int | None = None) -> int:  # noqa: ARG002
        return 0


class Closable(Holding):
    def close(self) -> None:
        self.is_closed = True


@pytest.mark.parametrize(("send", "is_closed"), [(Holding(), False), (Closable(), True)])
def test_closing_releases_the_resources_of_a_send(send: Holding, is_closed: bool) -> None:
    checked: Send = send
    close(checked)
    assert send.is_closed is is_closed


@pytest.mark.parametrize(
    ("budget", "takes", "asked"),
    [
        (None, [3, 3], [None]),
        (10, [4, 4, 4, 4], [10, 6, 2]),
        (10, [4, 0, 4], [10, 6]),
        (10, [0, 4], [10]),
        (10, [10, 4], [10]),
        (10, [20, 4], [10]),
    ],
)
def test_a_budget_is_used_up_or_the_channel_takes_no_more(
    budget: int | None, takes: list[int], asked: list[int | None]
) -> None:
    found = list[int | None]()

    def write(rest: int | None) -> int:
        found.append(rest)
        return takes[len(found) - 1]

    assert write_all(write, budget) == sum(takes[: len(asked)])
    assert found == asked


def test_a_few_waiting_bytes_of_a_large_piece_are_copied_for_that() -> None:
    """So that the rest of it is freed. More than half of it is not worth a copy."""
    for left, is_copied in ((499, True), (501, False)):
        piece = bytes(1000)
        pending = PendingBytes(memoryview(piece))
        pending.write_to(Channel(1000 - left))
        pending.copy()
        assert (pending.left.obj is not piece) == is_copied
        assert len(pending.left) == left


def test_no_piece_is_held_when_all_of_it_is_written() -> None:
    buffer = bytearray(b"converted")
    pending = PendingBytes(memoryview(buffer))
    pending.write_to(Channel())
    buffer.clear()  # a BufferError while somebody has a view of it
    assert not pending.left


def test_bytes_that_a_channel_did_not_take_are_written_again_in_no_smaller_part() -> None:
    """TLS may have sent some of them, and refuses a shorter write. Another one may be shorter."""
    sizes: list[int] = []

    class Channel:
        def send(self, data: memoryview) -> int:
            sizes.append(len(data))
            if len(sizes) == 1:
                raise BlockingIOError
            return len(data)

    pending = PendingBytes(memoryview(bytes(1000)))
    channel = Channel()
    assert [pending.write_to(channel, size) for size in (500, 100, 100)] == [0, 500, 100]
    assert sizes == [500, 500, 100]
