"""`advance` of compressed batches: recoding them, or leaving them to the caller."""

import select
import socket
import sys
from contextlib import suppress
from pathlib import Path
from types import ModuleType

import pytest

from records import reference
from records.codecs import compress
from records.formats import ATTRIBUTES_AT_BATCH, TRANSACTIONAL, V1, V2, Codec
from records.kernel import COUNTER, MEMORY, PLAIN, Outcome, Recodes
from records.units import KiB, MiB

from . import advancing
from .advancing import Channel, send
from .examples import batch, record
from .kernels import each_kernel
from .long_log import CHUNK, COMPRESSED, EVERYTHING, LOG, SHORT_LOG, converted, opened

channel = pytest.fixture(params=advancing.KINDS)(advancing.channel)


def recoded(kernel: ModuleType, entry: bytes, recodes: Recodes) -> bytes:
    codec = recodes.codecs[entry[ATTRIBUTES_AT_BATCH + 1] & 7]
    transcoder = kernel.Transcoder(V1, 0, 1, False, recodes)
    made = transcoder.recode(entry, 0, len(entry), codec)
    assert isinstance(made, bytes)
    return made


TCP_NOTSENT_LOWAT = 25
RECODES = Recodes(bytes([0, 3, 2, 3, 1]), True, True, True, 128 * KiB, MiB)
ZEROS = record(0, None, bytes(100_000))
RECORDS = [record(delta, b"key", b"value %d " % delta * 9) for delta in (*range(30), 40)]


def compressed(codec: Codec, size: int = 0, **fields: int) -> bytes:
    records = [*RECORDS, record(41, None, bytes(range(256)) * (size // 256))]
    data = compress(codec, b"".join(records), magic=V2, compression_level="kafka")
    fields["attributes"] = fields.get("attributes", 0) | codec
    return batch(compressed=data, records_count=len(records), last_offset_delta=41, **fields)


@each_kernel
@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("budget", [1, EVERYTHING])
def test_compressed_batches_are_recoded(
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
        transcoder = kernel.Transcoder(V1, 0, 1, False, RECODES)
        ended = send(transcoder, source, len(log), channel, budget=budget)
    assert ended == (len(log), Outcome.END)
    assert channel.taken == expected + converted(kernel, LOG)
    assert transcoder.totals[1] == 200 + 2 * len(entries)


@each_kernel
def test_a_call_ends_where_eight_times_its_budget_has_been_decompressed(kernel: ModuleType) -> None:
    entry = batch(compressed=compress(Codec.ZSTD, ZEROS, magic=V2, compression_level="fast"),
                  records_count=1, attributes=Codec.ZSTD)  # fmt: skip
    log, budget = entry * 40, 8 * len(entry)
    transcoder = kernel.Transcoder(V1, 0, 1, False, RECODES)
    done = transcoder.advance(log, 0, len(log), CHUNK, MEMORY, False, EVERYTHING, budget)
    assert done[2] == Outcome.LIMIT
    assert done[0] == len(entry)
    assert transcoder.totals[3] == len(ZEROS) >= 8 * budget


@each_kernel
@pytest.mark.parametrize("chunk_size", [CHUNK, 128 * KiB])
def test_messages_of_several_batches_are_written_at_once(
    kernel: ModuleType, chunk_size: int
) -> None:
    entry = compressed(Codec.LZ4, size=4096)
    made = recoded(kernel, entry, RECODES)
    writer, reader = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)  # counts writes
    with writer, reader:
        for end in writer, reader:
            end.setblocking(False)
        transcoder = kernel.Transcoder(V1, 0, 1, False, RECODES)
        log = entry * 20
        done = transcoder.advance(
            *(log, 0, len(log), chunk_size, writer.fileno(), True, EVERYTHING),
            EVERYTHING,
        )
        assert done[:4] == (len(log), 20 * len(made), Outcome.END, None)
        writes = []
        with suppress(BlockingIOError):
            while True:
                writes.append(reader.recv(MiB))
    assert b"".join(writes) == 20 * made
    if kernel is not reference:
        assert len(writes) <= 2


@pytest.mark.skipif(sys.platform != "linux", reason="the option is Linux's")
@each_kernel
@pytest.mark.parametrize("chunk_size", [CHUNK, 128 * KiB])
def test_a_short_write_loses_nothing(kernel: ModuleType, chunk_size: int) -> None:
    """As with net.ipv4.tcp_notsent_lowat: what was made as a write fell short comes back, too."""
    entry = compressed(Codec.LZ4, size=20_000)
    log, made = entry * 400, recoded(kernel, entry, RECODES) * 400
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        socket.create_connection(listening.getsockname()) as reader,
        listening.accept()[0] as writer,
    ):
        writer.setsockopt(socket.IPPROTO_TCP, TCP_NOTSENT_LOWAT, 16_384)
        for end in writer, reader:
            end.setblocking(False)
        transcoder, position, taken = kernel.Transcoder(V1, 0, 1, False, RECODES), 0, bytearray()
        while len(taken) < len(made):
            rest = b""
            if position < len(log):
                consumed, _, _, rest, error = transcoder.advance(
                    *(log, position, len(log), chunk_size, writer.fileno(), True, EVERYTHING),
                    EVERYTHING,
                )
                assert error == 0
                position += consumed
            while True:
                with suppress(BlockingIOError):
                    taken += reader.recv(100_000)
                if not rest:
                    break
                with suppress(BlockingIOError):
                    rest = rest[writer.send(rest) :]
            if position == len(log):
                assert len(taken) == len(made) or select.select([reader], [], [], 5.0)[0], "lost"
    assert taken == made


@each_kernel
@pytest.mark.parametrize("budget", [1, 20_000, EVERYTHING])
def test_memory_takes_everything(kernel: ModuleType, tmp_path: Path, budget: int) -> None:
    part = LOG[: len(LOG) // 4]
    log = part + compressed(Codec.LZ4) + part + compressed(Codec.GZIP, size=300_000) + part
    expected = converted(kernel, part) + recoded(kernel, compressed(Codec.LZ4), RECODES)
    taken, position = bytearray(), 0
    with opened(tmp_path / "log", log) as source:
        transcoder = kernel.Transcoder(V1, 0, 1, False, RECODES)
        while True:
            consumed, written, outcome, rest, error = transcoder.advance(
                *(source, position, len(log), CHUNK, MEMORY, False, EVERYTHING, budget)
            )
            taken += rest or b""
            assert (len(rest or b""), error) == (written, 0)
            position += consumed
            if outcome != Outcome.LIMIT:
                break
            assert max(consumed, written) >= budget
    assert outcome == Outcome.BATCH  # which is too large
    assert taken == expected + converted(kernel, part)
    assert position == 2 * len(part) + len(compressed(Codec.LZ4))


@each_kernel
def test_batches_without_a_target_codec_are_left_to_the_caller(
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
            transcoder = kernel.Transcoder(V1, 0, 1, stops, recodes)
            position, outcome = send(transcoder, source, len(entry), channel)
        assert (position, outcome) == ((len(entry), Outcome.END) if is_done else (0, Outcome.BATCH))
        assert (transcoder.totals[0] > 0) == is_done


@each_kernel
@pytest.mark.parametrize("trim", [True, False])
@pytest.mark.parametrize("first_offset", [0, 7, 42])
@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.ZSTD])
def test_a_compressed_batch_becomes_the_messages_of_an_uncompressed_one(
    kernel: ModuleType, codec: Codec, first_offset: int, trim: bool
) -> None:
    plain = SHORT_LOG + batch(*RECORDS, record(41, None, b""), last_offset_delta=41) + SHORT_LOG
    expected = bytearray(8 * len(plain))
    transcoder = kernel.Transcoder(V1, first_offset, 1, False)
    window = (plain, 0, len(plain), len(plain))
    _, size, _ = transcoder.transcode(*window, expected, 0, len(expected))
    recodes = RECODES._replace(codecs=bytes([0, PLAIN, 0, 0, PLAIN]), trim=trim)
    log = SHORT_LOG + compressed(codec) + SHORT_LOG
    for target in MEMORY, COUNTER:
        transcoder = kernel.Transcoder(V1, first_offset, 1, False, recodes)
        call = (log, 0, len(log), CHUNK, target, False, EVERYTHING, EVERYTHING)
        *done, rest, _ = transcoder.advance(*call)
        assert done == [len(log), size, Outcome.END]
        assert rest == (expected[:size] if target == MEMORY and size else None)


@each_kernel
def test_a_batch_without_room_for_its_messages_is_left_to_the_caller(kernel: ModuleType) -> None:
    entry = compressed(Codec.GZIP)
    recodes = RECODES._replace(codecs=bytes([0, PLAIN]))
    for room, is_done in [(EVERYTHING, True), (1_000, False)]:
        for target in MEMORY, COUNTER:
            transcoder = kernel.Transcoder(V1, 0, 1, False, recodes)
            call = (entry, 0, len(entry), CHUNK, target, False, room, EVERYTHING)
            consumed, made, outcome, _, _ = transcoder.advance(*call)
            expected = (len(entry), Outcome.END) if is_done else (0, Outcome.BATCH)
            assert (consumed, outcome) == expected
            assert (made > 0) == (transcoder.totals[0] > 0) == is_done


@each_kernel
@pytest.mark.parametrize("target", [MEMORY, "plain"])
@pytest.mark.parametrize("missing", [0, 1, 50])
def test_all_recoded_batches_together_fit_into_the_room(
    kernel: ModuleType, target: object, missing: int
) -> None:
    """The one that does not fit is left for a decision. Messages before it count, too."""
    entry, plain = compressed(Codec.LZ4), LOG[: len(LOG) // 200]
    made, before = recoded(kernel, entry, RECODES), converted(kernel, plain)
    recodes = RECODES
    if target == "plain":  # it becomes messages that are not compressed
        recodes = RECODES._replace(codecs=bytes([0, 0, 0, PLAIN, 0]))
        transcoder = kernel.Transcoder(V1, 0, 1, False, recodes)
        made = transcoder.advance(
            *(entry, 0, len(entry), 1 << 17, MEMORY, False, EVERYTHING), EVERYTHING
        )[3]
    log = plain + entry * 3
    room = len(before) + 3 * len(made) - missing
    transcoder = kernel.Transcoder(V1, 0, 1, False, recodes)
    done = transcoder.advance(log, 0, len(log), 1 << 17, MEMORY, False, room, EVERYTHING)
    count = 2 if missing else 3
    assert bytes(done[3]) == before + made * count
    assert done[0] == len(plain) + count * len(entry)
    assert done[2] == (Outcome.BATCH if missing else Outcome.END)
