"""`transfer`: from a file to a channel, the same bytes as transcode makes, however far a call
goes."""

import errno
import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from records import reference
from records.codecs import compress
from records.formats import (
    ATTRIBUTES_AT_BATCH,
    TRANSACTIONAL,
    V1,
    V2,
    Codec,
)
from records.kernel import Outcome, Recodes

from . import raw
from .examples import EVERY_CODEC, batch, record
from .kernels import each_kernel
from .long_log import CHUNK, COMPRESSED, DECISIONS, EVERYTHING, LOG, converted, opened


class Channel:
    """A pipe or a pair of sockets, neither of which blocks."""

    def __init__(self, kind: str) -> None:
        self.is_socket = kind == "socket"
        if self.is_socket:
            pair = socket.socketpair()
            self.reader, self.writer = (end.detach() for end in pair)
        else:
            self.reader, self.writer = os.pipe()
        for end in self.reader, self.writer:
            os.set_blocking(end, False)
        self.taken = bytearray()

    def drain(self, size: int = 1 << 20) -> None:
        with suppress(BlockingIOError):
            self.taken += os.read(self.reader, size)

    def close(self) -> None:
        for end in self.reader, self.writer:
            os.close(end)


@pytest.fixture(params=["pipe", "socket"])
def channel(request: pytest.FixtureRequest) -> Iterator[Channel]:
    made = Channel(request.param)
    yield made
    made.close()


def send(
    transcoder: Any,
    source: Any,
    size: int,
    channel: Channel,
    *,
    budget: int = EVERYTHING,
    chunk_size: int = CHUNK,
    drains: int = 1 << 20,
    recodes: Recodes | None = None,
) -> tuple[int, Outcome]:
    """Calls until something else than room or budget is missing."""
    position = 0
    while True:
        consumed, written, outcome, rest, error, _ = transcoder.transfer(
            *(source, position, size, chunk_size, channel.writer, channel.is_socket),
            *(EVERYTHING, budget, recodes),
        )
        assert error == 0
        position += consumed
        assert (rest is None) == (outcome != Outcome.CHANNEL)
        while rest:
            channel.drain(drains)
            try:
                rest = rest[os.write(channel.writer, rest) :]
            except BlockingIOError:
                continue
        if outcome not in (Outcome.CHANNEL, Outcome.LIMIT):
            while True:
                before = len(channel.taken)
                channel.drain()
                if len(channel.taken) == before:
                    return position, Outcome(outcome)
        if outcome == Outcome.LIMIT:
            assert max(consumed, written) >= budget
            channel.drain()


@each_kernel
@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("chunk_size", [128, 1024, 100_000])
def test_what_arrives_is_what_transcode_makes(
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
        consumed, written, outcome, _, _, _ = transcoder.transfer(*call, 0)
        assert (consumed, written, outcome) == (0, 0, Outcome.LIMIT)
        consumed, written, outcome, _, _, _ = transcoder.transfer(*call, budget)
        assert outcome == Outcome.LIMIT
        assert budget <= max(consumed, written) <= budget + 2 * CHUNK
        again = kernel.Transcoder(V1, 0, EVERY_CODEC, False)
        channel.drain()
        channel.taken.clear()
        assert send(again, source, len(LOG), channel, budget=budget)[1] == Outcome.END
    assert channel.taken == converted(kernel, LOG)


@each_kernel
@pytest.mark.parametrize("promised", [0, 1, 1000, 30_000])
def test_not_a_byte_more_than_promised_is_written(
    kernel: ModuleType, tmp_path: Path, channel: Channel, promised: int
) -> None:
    with opened(tmp_path / "log", LOG) as source:
        transcoder = kernel.Transcoder(V1, 0, EVERY_CODEC, False)
        _, written, outcome, rest, _, _ = transcoder.transfer(
            *(source, 0, len(LOG), CHUNK, channel.writer, channel.is_socket),
            *(promised, EVERYTHING),
        )
    whole = kernel.Transcoder(V1, 0, EVERY_CODEC, False)
    made = whole.transcode(LOG, 0, len(LOG), len(LOG), bytearray(promised), 0, promised)[1]
    assert (written, rest) == (made, None)  # whole messages
    assert outcome == (Outcome.LIMIT if written == promised else Outcome.TARGET)
    channel.drain()
    assert channel.taken == converted(kernel, LOG)[:made]


@each_kernel
def test_what_a_full_channel_left_of_a_chunk_comes_back(kernel: ModuleType, tmp_path: Path) -> None:
    channel = Channel("pipe")
    try:
        if hasattr(fcntl, "F_SETPIPE_SZ"):
            fcntl.fcntl(channel.writer, fcntl.F_SETPIPE_SZ, 4096)
        with opened(tmp_path / "log", LOG) as source:
            transcoder = kernel.Transcoder(V1, 0, EVERY_CODEC, False)
            call = (len(LOG), 3000, channel.writer, False, EVERYTHING, EVERYTHING)
            consumed, written, outcome, rest, error, _ = transcoder.transfer(source, 0, *call)
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
                consumed, _, _, rest, _, _ = transcoder.transfer(
                    *(LOG, position, len(LOG), CHUNK, writer.fileno(), True, EVERYTHING),
                    *(EVERYTHING, None, None),
                )
                position += consumed
                left.append(len(rest or b""))
            with suppress(BlockingIOError):
                while True:
                    taken += reader.recv(1 << 20)
                    writes += 1
            if rest:
                writer.send(rest)
                rest = b""
    assert taken == expected
    if kernel is not reference:
        assert writes - sent_before < len(LOG) / CHUNK / 2
    assert max(left) < 2 * CHUNK


@each_kernel
def test_a_channel_that_is_gone_is_an_error_and_keeps_the_chunk(
    kernel: ModuleType, tmp_path: Path, channel: Channel
) -> None:
    os.close(channel.reader)
    with opened(tmp_path / "log", LOG) as source:
        transcoder = kernel.Transcoder(V1, 0, EVERY_CODEC, False)
        consumed, written, outcome, rest, error, _ = transcoder.transfer(
            *(source, 0, len(LOG), CHUNK, channel.writer, channel.is_socket),
            *(EVERYTHING, EVERYTHING),
        )
    assert (written, outcome, error) == (0, Outcome.CHANNEL, errno.EPIPE)
    assert rest == converted(kernel, LOG)[: len(rest)]
    assert consumed > 0
    channel.reader = os.dup(channel.writer)  # to be closed


def recoded(kernel: ModuleType, entry: bytes, recodes: Recodes) -> bytes:
    codec = recodes.codecs[entry[ATTRIBUTES_AT_BATCH + 1] & 7]
    transcoder = kernel.Transcoder(V1, 0, 1, False)
    made = transcoder.recode(entry, 0, len(entry), codec, *recodes[1:])
    assert isinstance(made, bytes)
    return made


RECODES = Recodes(bytes([0, 3, 2, 3, 1]), True, True, True, 1 << 17, 1 << 20)
RECORDS = [record(delta, b"key", b"value %d " % delta * 9) for delta in (*range(30), 40)]


def compressed(codec: Codec, size: int = 0, **fields: int) -> bytes:
    records = [*RECORDS, record(41, None, bytes(range(256)) * (size // 256))]
    data = compress(codec, b"".join(records), magic=V2, compression_level="kafka")
    fields["attributes"] = fields.get("attributes", 0) | codec
    return batch(compressed=data, records_count=len(records), last_offset_delta=41, **fields)


@each_kernel
@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("budget", [1, EVERYTHING])
def test_compressed_batches_are_recoded_on_the_way(
    kernel: ModuleType, tmp_path: Path, channel: Channel, mapped: bool, budget: int
) -> None:
    entries = [compressed(codec) for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD)]
    entries.append(compressed(Codec.LZ4, size=60_000))
    log = b"".join(LOG[: len(LOG) // 200] + entry for entry in entries) + LOG
    expected = b"".join(
        converted(kernel, LOG[: len(LOG) // 200]) + recoded(kernel, entry, RECODES)
        for entry in entries
    )
    with opened(tmp_path / "log", log, mapped=mapped) as source:
        transcoder = kernel.Transcoder(V1, 0, 1, False)
        ended = send(transcoder, source, len(log), channel, budget=budget, recodes=RECODES)
    assert ended == (len(log), Outcome.END)
    assert channel.taken == expected + converted(kernel, LOG)
    assert transcoder.totals[1] == 200 + 2 * len(entries)


@each_kernel
@pytest.mark.parametrize("missing", [0, 1])
@pytest.mark.parametrize("first", [b"", b"held before"])
def test_the_last_message_is_held_back_as_long_as_it_fits(
    kernel: ModuleType, tmp_path: Path, channel: Channel, missing: int, first: bytes
) -> None:
    gaps = compressed(Codec.LZ4)  # two messages
    whole = compressed(Codec.GZIP, base_offset=100)
    expected = first + b"".join(recoded(kernel, entry, RECODES) for entry in (gaps, whole, gaps))
    last = len(recoded(kernel, gaps, RECODES))
    log = gaps + whole + gaps
    with opened(tmp_path / "log", log) as source:
        transcoder = kernel.Transcoder(V1, 0, 1, False)
        consumed, written, outcome, rest, _, held = transcoder.transfer(
            *(source, 0, len(log), CHUNK, channel.writer, channel.is_socket),
            *(len(expected) - missing, EVERYTHING, RECODES, first),
        )
    is_done = not missing
    assert (consumed, outcome) == (
        (len(log), Outcome.END) if is_done else (len(log) - len(gaps), Outcome.BATCH)
    )
    channel.drain()
    assert rest is None
    assert written == len(channel.taken)
    assert channel.taken + held == (expected if is_done else expected[:-last])
    assert len(held) == 12 + int.from_bytes(held[8:12])  # one message


@each_kernel
def test_no_plain_message_is_written_where_something_may_be_held_back(
    kernel: ModuleType, tmp_path: Path, channel: Channel
) -> None:
    with opened(tmp_path / "log", LOG) as source:
        transcoder = kernel.Transcoder(V1, 0, 1, False)
        call = (source, 0, len(LOG), CHUNK, channel.writer, channel.is_socket)
        done = transcoder.transfer(*call, EVERYTHING, EVERYTHING, RECODES, b"")
        assert done[1:] == (0, Outcome.TARGET, None, 0, b"")


@each_kernel
def test_what_is_not_to_be_recoded_comes_back(
    kernel: ModuleType, tmp_path: Path, channel: Channel
) -> None:
    good = compressed(Codec.GZIP)
    for entry, recodes, stops, is_done in [
        (good, RECODES, False, True),
        (good, None, False, False),
        (good, RECODES._replace(codecs=b""), False, False),
        (good, RECODES._replace(codecs=b"\0\4"), False, False),
        (good, RECODES._replace(body_size_max=100), False, False),
        (good, RECODES._replace(inner_size_max=100), False, False),
        (compressed(Codec.GZIP, attributes=TRANSACTIONAL), RECODES, False, True),
        (compressed(Codec.GZIP, attributes=TRANSACTIONAL), RECODES, True, False),
        (COMPRESSED, RECODES, False, False),
    ]:
        with opened(tmp_path / "log", entry) as source:
            transcoder = kernel.Transcoder(V1, 0, 1, stops)
            position, outcome = send(transcoder, source, len(entry), channel, recodes=recodes)
        assert (position, outcome) == ((len(entry), Outcome.END) if is_done else (0, Outcome.BATCH))
        assert (transcoder.totals[0] > 0) == is_done


@each_kernel
@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("what", DECISIONS)
def test_what_has_to_be_decided_comes_back_where_it_is(
    kernel: ModuleType, tmp_path: Path, channel: Channel, what: str, mapped: bool
) -> None:
    entry, outcome, inside = DECISIONS[what]
    log = LOG + entry
    with opened(tmp_path / "log", log, mapped=mapped) as source:
        transcoder = kernel.Transcoder(V1, 0, 1, False)
        position, ended = send(transcoder, source, len(log), channel)
        assert ended == outcome
        assert position == (len(log) if inside is None else len(LOG) + inside)
        assert channel.taken[: len(converted(kernel, LOG))] == converted(kernel, LOG)
        left = len(log) - position
        window = (log, position, len(log), left)
        assert transcoder.damage is None
        _, _, again = transcoder.transcode(*window, bytearray(99 * CHUNK), 0, 99 * CHUNK)
        assert again == (Outcome.END if outcome == Outcome.SOURCE else outcome)
        assert (transcoder.damage is not None) == (again == Outcome.DAMAGE)


@each_kernel
def test_a_file_that_has_become_shorter_asks_for_what_is_missing(
    kernel: ModuleType, tmp_path: Path, channel: Channel
) -> None:
    with opened(tmp_path / "log", LOG) as source:
        os.truncate(tmp_path / "log", len(LOG) // 2)
        transcoder = kernel.Transcoder(V1, 0, EVERY_CODEC, False)
        position, ended = send(transcoder, source, len(LOG), channel)
    assert ended == Outcome.SOURCE
    assert position <= len(LOG) // 2


@each_kernel
def test_what_cannot_be_asked_is_refused(kernel: ModuleType) -> None:
    good = (LOG, 0, len(LOG), CHUNK, 1, False, 0, 0)
    for at, wrong in [
        *((0, -1), (0, "text"), (1, -1), (1, len(LOG) + 1), (2, len(LOG) + 1), (3, 0)),
        *((3, -1), (4, -1), (6, -1), (7, -1)),
    ]:
        call = [*good[:at], wrong, *good[at + 1 :]]
        with pytest.raises((ValueError, TypeError)):
            kernel.Transcoder(V1, 0, EVERY_CODEC, False).transfer(*call)
    entered = kernel.Transcoder(V1, 0, EVERY_CODEC, False)
    entered.enter_batch(LOG, 0, False, False, False)
    with pytest.raises(ValueError, match=r"\w"):
        entered.transfer(*good)
    passing = kernel.Transcoder(V2, 0, EVERY_CODEC, False)
    assert passing.transfer(*good)[2] == Outcome.LIMIT


@each_kernel
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(
    log=raw.logs(),
    chunk_size=st.sampled_from([128, 200, 1000]),
    budget=st.integers(1, 3000),
    kind=st.sampled_from(["pipe", "socket"]),
)
def test_any_log_goes_as_far_as_transcode_does(
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
    target = bytearray(1 << 16)
    consumed, produced, expected = whole.transcode(log, 0, len(log), len(log), target, 0, 1 << 16)
    arrived = bytes(channel.taken)
    assert arrived == target[: len(arrived)]
    if outcome in (Outcome.SOURCE, Outcome.TARGET):
        assert position <= consumed
    else:
        assert (position, len(arrived)) == (consumed, produced)
        if position < len(log):
            assert outcome == expected
