"""Recompressed ranges of any log, also of a damaged one, are what a simple model says.

The model decompresses one batch after the other, and all of it at once. The ranges have limits that
bind, lie somewhere in a file, and are written to channels that take some bytes or none."""

from collections import Counter
from pathlib import Path
from random import Random
from typing import Final

import pytest

from downconvert import LazyRecodedRecords
from downconvert.conversion import recode
from records import (
    Codec,
    CorruptRecordsError,
    MemoryRecords,
    Records,
    RecordsError,
    UnsupportedCodecError,
)
from records.codecs import decompress
from records.crc32c import crc32c
from records.formats import (
    ATTRIBUTES_AT_BATCH,
    BATCH_HEADER,
    BATCH_HEADER_SIZE,
    CODEC_MASK,
    PREFIX,
    V2,
)
from records.steps import at_once
from tests.damage import mutated
from tests.downconvert.promises.any_log import any_log

from .channels import RandomSizes
from .parts import parts
from .ways import RUNS_ONCE

pytestmark = RUNS_ONCE

LOGS: Final = 150
DECOMPRESSED_MAX: Final = 1 << 24
NAMES: Final = ("none", "gzip", "snappy", "lz4")
ENDS: Final = {"damage", "refusal", "limit", "end"}


class Expected:
    """size: of the good batches in the log. bodies: what batches hold, or None for those that stay
    as they are. error: why the range ends there."""

    def __init__(self, log: Records, data: bytes, codecs: dict[str, str]) -> None:
        self.bodies: list[bytes | None] = []
        self.size = 0
        self.error: type[RecordsError] | None = None
        try:
            for header in log.batches():
                target = codecs.get(header.codec.name.lower()) if header.magic == V2 else None
                entry = data[self.size : self.size + header.size]
                if target == "refuse":
                    raise UnsupportedCodecError("", 0)
                self.bodies.append(None if target is None else _body(entry, header.codec))
                self.size += header.size
        except RecordsError as error:
            self.error = type(error)


def _body(entry: bytes, codec: Codec) -> bytes:
    fields = BATCH_HEADER.unpack_from(entry)
    if fields[4] != crc32c(entry[ATTRIBUTES_AT_BATCH:]):
        raise CorruptRecordsError("checksum", 0)
    found = decompress(codec, entry[BATCH_HEADER_SIZE:], limit=DECOMPRESSED_MAX, magic=V2)
    assert found is not None
    return bytes(found)


def kept_fields(entry: bytes) -> tuple[int, ...]:
    """All fields of a batch's header that another codec does not change."""
    offset, _, epoch, magic, _, attributes, *others = BATCH_HEADER.unpack_from(entry)
    return offset, epoch, magic, attributes & ~CODEC_MASK, *others


def check(sent: bytes, data: bytes, bodies: list[bytes | None], codecs: dict[str, str]) -> None:
    """The batches that were sent have the same fields and records as those of the log."""
    at = 0
    headers = list(MemoryRecords(sent).batches())
    assert sum(header.size for header in headers) == len(sent)
    assert len(headers) == len(bodies)
    for header, body in zip(headers, bodies, strict=True):
        new = sent[header.position : header.position + header.size]
        size = PREFIX.size + PREFIX.unpack_from(data, at)[1]
        old = data[at : at + size]
        at += size
        if body is None:
            assert new == old
            continue
        codec = Codec(BATCH_HEADER.unpack_from(old)[5] & CODEC_MASK)
        assert header.codec.name.lower() == codecs[codec.name.lower()]
        assert kept_fields(new) == kept_fields(old)
        assert _body(new, header.codec) == body


def test_a_recompressed_range_has_the_records_and_the_end_that_the_log_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = Counter[str]()
    for number in range(LOGS):
        random = Random(number)
        log = any_log(random, is_large=False).data
        data = mutated(log, random) if random.random() < 0.5 else log
        names = random.sample(("gzip", "snappy", "lz4", "zstd"), random.randint(1, 4))
        codecs = {name: random.choice((*NAMES, *NAMES, "refuse")) for name in names}
        expected = Expected(MemoryRecords(data), data, codecs)
        with monkeypatch.context() as patch, parts(data, tmp_path, random) as sources:
            source = random.choice(sources)
            patch.setattr(recode, "WINDOW_SIZE", random.choice((100, 3_000, recode.WINDOW_SIZE)))
            limit = random.choice((2_000, recode.DECOMPRESSED_SIZE_MAX))
            patch.setattr(recode, "DECOMPRESSED_SIZE_MAX", limit)
            patch.setattr(recode, "STEPS_A_WRITE", random.choice((1, 2, recode.STEPS_A_WRITE)))
            asked = {**codecs, "lz4:magic0": "gzip", "gzip:magic1": "refuse"}
            lazy, refused = None, None
            try:
                if random.random() < 0.5:
                    lazy = LazyRecodedRecords(source, asked)
                else:
                    lazy = at_once(LazyRecodedRecords.in_steps(source, asked))
            except RecordsError as error:
                refused = error
            if lazy is None:
                assert (type(refused), expected.size) == (expected.error, 0)
                continue
            send, channel = lazy.to_send(), RandomSizes(number)
            while not send.completed:
                before = send.remaining
                written = send.write_to(channel, random.choice((None, 1, 1_000)))
                assert written == before - send.remaining
        sent = bytes(channel.taken)
        assert lazy.size == send.size == len(sent)
        if lazy.is_cut:
            assert lazy.source_size < expected.size or expected.error
        else:
            assert lazy.source_size == expected.size
            assert expected.error is (None if lazy.damage is None else type(lazy.damage))
        bodies = expected.bodies[: len(list(MemoryRecords(data[: lazy.source_size]).batches()))]
        check(sent, data, bodies, codecs)
        assert lazy.has_recoded == any(body is not None for body in bodies)
        ends[_end(lazy)] += 1
    assert set(ends) == ENDS
    assert min(ends.values()) >= 3


def _end(lazy: LazyRecodedRecords) -> str:
    if lazy.is_cut:
        return "limit"
    if isinstance(lazy.damage, UnsupportedCodecError):
        return "refusal"
    return "damage" if lazy.damage else "end"
