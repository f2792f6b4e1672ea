"""`advance` from a file to a channel makes the same bytes as transcode, whatever a call's
limits."""

import errno
import fcntl
import os
import socket
from contextlib import suppress
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from records import reference
from records.formats import V1, V2
from records.kernel import MEMORY, Outcome
from records.units import KiB, MiB

from . import advancing, raw
from .advancing import Channel, send
from .examples import EVERY_CODEC
from .kernels import each_kernel
from .long_log import CHUNK, DECISIONS, EVERYTHING, LOG, SHORT_LOG, converted, opened

channel = pytest.fixture(params=advancing.KINDS)(advancing.channel)


@each_kernel
@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("chunk_size", [128, 1024, 100_000])
def test_advance_sends_the_bytes_that_transcode_makes(
    kernel: ModuleType, tmp_path: Path, channel: Channel, mapped: bool, chunk_size: int
) -> None:
    with opened(tmp_path / "log", LOG, mapped=mapped) as source:
        transcoder = kernel.Transcoder(V1, 0, EVERY_CODEC, False)
        ended = send(transcoder, source, len(LOG), channel, chunk_size=chunk_size)
    assert ended == (len(LOG), Outcome.END)
    assert channel.taken == converted(kernel, LOG)
    assert transcoder.totals[:2] == (12 * 200, 200)


@each_kernel
@pytest.mark.parametrize("budget", [1, CHUNK, 5000])
def test_a_budget_ends_a_call_and_nothing_else(
    kernel: ModuleType, tmp_path: Path, channel: Channel, budget: int
) -> None:
    with opened(tmp_path / "log", LOG) as source:
        transcoder = kernel.Transcoder(V1, 0, EVERY_CODEC, False)
        call = (source, 0, len(LOG), CHUNK, channel.writer, channel.is_socket, EVERYTHING)
        consumed, written, outcome, _, _ = transcoder.advance(*call, 0)
        assert (consumed, written, outcome) == (0, 0, Outcome.LIMIT)
        consumed, written, outcome, _, _ = transcoder.advance(*call, budget)
        assert outcome == Outcome.LIMIT
        assert budget <= max(consumed, written) <= budget + 2 * CHUNK
        again = kernel.Transcoder(V1, 0, EVERY_CODEC, False)
        channel.drain()
        channel.taken.clear()
        assert send(again, source, len(LOG), channel, budget=budget)[1] == Outcome.END
    assert channel.taken == converted(kernel, LOG)


@each_kernel
@pytest.mark.parametrize("room", [0, 1, 1000, 30_000])
def test_at_most_room_bytes_are_written(
    kernel: ModuleType, tmp_path: Path, channel: Channel, room: int
) -> None:
    with opened(tmp_path / "log", LOG) as source:
        transcoder = kernel.Transcoder(V1, 0, EVERY_CODEC, False)
        _, written, outcome, rest, _ = transcoder.advance(
            *(source, 0, len(LOG), CHUNK, channel.writer, channel.is_socket),
            *(room, EVERYTHING),
        )
    whole = kernel.Transcoder(V1, 0, EVERY_CODEC, False)
    made = whole.transcode(LOG, 0, len(LOG), len(LOG), bytearray(room), 0, room)[1]
    assert (written, rest) == (made, None)  # whole messages
    assert outcome == (Outcome.LIMIT if written == room else Outcome.TARGET)
    channel.drain()
    assert channel.taken == converted(kernel, LOG)[:made]


@each_kernel
def test_the_part_of_a_chunk_that_a_full_channel_left_is_returned(
    kernel: ModuleType, tmp_path: Path
) -> None:
    channel = Channel("pipe")
    try:
        if hasattr(fcntl, "F_SETPIPE_SZ"):
            fcntl.fcntl(channel.writer, fcntl.F_SETPIPE_SZ, 4096)
        with opened(tmp_path / "log", LOG) as source:
            transcoder = kernel.Transcoder(V1, 0, EVERY_CODEC, False)
            call = (len(LOG), 3000, channel.writer, False, EVERYTHING, EVERYTHING)
            consumed, written, outcome, rest, error = transcoder.advance(source, 0, *call)
            assert (outcome, error) == (Outcome.CHANNEL, 0)
            channel.drain()
            assert len(channel.taken) == written
            assert channel.taken + rest == converted(kernel, LOG)[: written + len(rest)]
            assert consumed < len(LOG)
    finally:
        channel.close()


@each_kernel
@pytest.mark.parametrize("sent_before", [0, 40])
def test_a_socket_with_room_gets_several_chunks_at_once_and_leaves_at_most_one(
    kernel: ModuleType, sent_before: int
) -> None:
    writer, reader = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)  # counts writes
    with writer, reader:
        for end in writer, reader:
            end.setblocking(False)
        for _ in range(sent_before):
            writer.send(bytes(CHUNK))
        transcoder = kernel.Transcoder(V1, 0, EVERY_CODEC, False)
        rest, position, writes, left = b"", 0, 0, list[int]()
        expected = bytearray(sent_before * CHUNK) + converted(kernel, LOG)
        taken = bytearray()
        while len(taken) < len(expected):
            if not rest:
                consumed, _, _, rest, _ = transcoder.advance(
                    *(LOG, position, len(LOG), CHUNK, writer.fileno(), True, EVERYTHING),
                    EVERYTHING,
                )
                position += consumed
                left.append(len(rest or b""))
            with suppress(BlockingIOError):
                while True:
                    taken += reader.recv(MiB)
                    writes += 1
            if rest:
                writer.send(rest)
                rest = b""
    assert taken == expected
    if kernel is not reference:
        assert writes - sent_before < len(LOG) / CHUNK / 2
    assert max(left) < 2 * CHUNK


@each_kernel
def test_a_closed_channel_is_an_error_and_the_chunk_is_returned(
    kernel: ModuleType, tmp_path: Path, channel: Channel
) -> None:
    os.close(channel.reader)
    with opened(tmp_path / "log", LOG) as source:
        transcoder = kernel.Transcoder(V1, 0, EVERY_CODEC, False)
        consumed, written, outcome, rest, error = transcoder.advance(
            *(source, 0, len(LOG), CHUNK, channel.writer, channel.is_socket),
            *(EVERYTHING, EVERYTHING),
        )
    assert (written, outcome, error) == (0, Outcome.CHANNEL, errno.EPIPE)
    assert rest == converted(kernel, LOG)[: len(rest)]
    assert consumed > 0
    channel.reader = os.dup(channel.writer)  # to be closed


@each_kernel
@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("what", DECISIONS)
def test_a_batch_that_needs_a_decision_ends_the_call_at_its_position(
    kernel: ModuleType, tmp_path: Path, channel: Channel, what: str, mapped: bool
) -> None:
    entry, outcome, inside = DECISIONS[what]
    log = SHORT_LOG + entry
    with opened(tmp_path / "log", log, mapped=mapped) as source:
        transcoder = kernel.Transcoder(V1, 0, 1, False)
        position, ended = send(transcoder, source, len(log), channel)
        assert ended == outcome
        assert position == (len(log) if inside is None else len(SHORT_LOG) + inside)
        assert channel.taken[: len(converted(kernel, SHORT_LOG))] == converted(kernel, SHORT_LOG)
        left = len(log) - position
        window = (log, position, len(log), left)
        damage = transcoder.damage
        _, _, again = transcoder.transcode(*window, bytearray(99 * CHUNK), 0, 99 * CHUNK)
        assert again == (Outcome.END if outcome == Outcome.SOURCE else outcome)
        assert (damage is not None) == (again == Outcome.DAMAGE)
        assert damage == transcoder.damage


@each_kernel
def test_damage_is_at_its_position_in_the_log_wherever_the_call_begins(kernel: ModuleType) -> None:
    log = SHORT_LOG + bytes(100)
    for position in (0, len(SHORT_LOG)):
        transcoder = kernel.Transcoder(V1, 0, 1, False)
        call = (log, position, len(log), CHUNK, MEMORY, False, EVERYTHING, EVERYTHING)
        assert transcoder.advance(*call)[2] == Outcome.DAMAGE
        reason = "entry is smaller than a message header"
        assert transcoder.damage == (reason, len(SHORT_LOG))


@each_kernel
def test_a_shortened_file_ends_the_call_with_source(
    kernel: ModuleType, tmp_path: Path, channel: Channel
) -> None:
    with opened(tmp_path / "log", LOG) as source:
        os.truncate(tmp_path / "log", len(LOG) // 2)
        transcoder = kernel.Transcoder(V1, 0, EVERY_CODEC, False)
        position, ended = send(transcoder, source, len(LOG), channel)
    assert ended == Outcome.SOURCE
    assert position <= len(LOG) // 2


@each_kernel
@pytest.mark.parametrize("size", [0, 1, CHUNK, len(LOG) // 2, len(LOG) - 1])
def test_a_buffer_may_be_the_beginning_of_the_range(kernel: ModuleType, size: int) -> None:
    """Bytes after its whole items do not count as a torn tail."""
    transcoder = kernel.Transcoder(V1, 0, EVERY_CODEC, False)
    room = budget = 2**31
    call = CHUNK, MEMORY, False, room, budget
    first, _, outcome, made, _ = transcoder.advance(LOG[:size], 0, len(LOG), *call)
    assert outcome == Outcome.SOURCE
    _, _, outcome, rest, _ = transcoder.advance(LOG, first, len(LOG), *call)
    assert outcome == Outcome.END
    whole = kernel.Transcoder(V1, 0, EVERY_CODEC, False).advance(LOG, 0, len(LOG), *call)
    assert (made or b"") + (rest or b"") == whole[3]


@each_kernel
def test_invalid_arguments_are_refused(kernel: ModuleType) -> None:
    good = (LOG, 0, len(LOG), CHUNK, 1, False, 0, 0)
    for at, wrong in [
        *((0, -1), (0, "text"), (1, -1), (1, len(LOG) + 1), (2, -1), (3, 0)),
        *((3, -1), (4, -3), (6, -1), (7, -1)),
    ]:
        call = [*good[:at], wrong, *good[at + 1 :]]
        with pytest.raises((ValueError, TypeError)):
            kernel.Transcoder(V1, 0, EVERY_CODEC, False).advance(*call)
    entered = kernel.Transcoder(V1, 0, EVERY_CODEC, False)
    entered.enter_batch(LOG, 0)
    with pytest.raises(ValueError, match=r"\w"):
        entered.advance(*good)
    passing = kernel.Transcoder(V2, 0, EVERY_CODEC, False)
    assert passing.advance(*good)[2] == Outcome.LIMIT


@each_kernel
@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    max_examples=30,
)
@given(
    log=raw.logs(),
    chunk_size=st.sampled_from([128, 200, 1000]),
    budget=st.integers(1, 3000),
    kind=st.sampled_from(["pipe", "socket"]),
)
def test_any_log_is_converted_as_far_as_by_transcode(
    kernel: ModuleType, tmp_path: Path, log: bytes, chunk_size: int, budget: int, kind: str
) -> None:
    channel = Channel(kind)
    try:
        with opened(tmp_path / "log", log) as source:
            transcoder = kernel.Transcoder(V1, 0, 1, False)
            ended = send(
                transcoder, source, len(log), channel, budget=budget, chunk_size=chunk_size
            )
    finally:
        channel.close()
    position, outcome = ended
    whole = kernel.Transcoder(V1, 0, 1, False)
    target = bytearray(64 * KiB)
    consumed, produced, expected = whole.transcode(log, 0, len(log), len(log), target, 0, 64 * KiB)
    arrived = bytes(channel.taken)
    assert arrived == target[: len(arrived)]
    if outcome in (Outcome.SOURCE, Outcome.TARGET):
        assert position <= consumed
    else:
        assert (position, len(arrived)) == (consumed, produced)
        if position < len(log):
            assert outcome == expected
