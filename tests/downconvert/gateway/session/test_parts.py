"""Ranges are cut into parts, and the converted parts together have all records."""

from collections.abc import Generator
from random import Random
from typing import Any

import pytest

from downconvert import AbortedTransaction, ConversionPolicy
from downconvert.gateway.session.exchanges import TURN, TURN_SIZE
from downconvert.gateway.session.turns import WORK_A_TURN, Converted, Parts, in_turns
from records import (
    Codec,
    ControlRecordType,
    MemoryRecords,
    Record,
    RecordsError,
    build,
    build_marker,
    read,
)
from records.files.sends import Send
from records.formats import MAGIC_AT
from simulator.collector import Collector
from tests.damage import flipped
from tests.downconvert.storage.logs import batch

NOISE = Random(3)
PLANNED = ConversionPolicy()
TO_THE_END = ConversionPolicy(trim_compressed=False)
ESTIMATED = ConversionPolicy(size="estimate", trim_compressed=False)


def large(offset: int, size: int = TURN_SIZE * 2 // 5, codec: Codec = Codec.NONE) -> bytes:
    record = Record(offset, 1, value=NOISE.randbytes(size))
    return build([record], magic=2, codec=codec)


def parts_of(*batches: bytes, offset: int = 0) -> Parts:
    return Parts(MemoryRecords(b"".join(batches)), offset)


def written(send: Send) -> bytes:
    collector = Collector()
    while not send.completed:
        send.write_to(collector)
    return bytes(collector.data)


def convert(
    parts: Parts,
    policy: ConversionPolicy = PLANNED,
    *,
    limit: int | None = None,
    is_first: bool = True,
    aborted: Any = (),
    offset: int = 0,
) -> tuple[list[int], bool, list[int]]:
    """The offsets, whether they are all, and the size of each send."""
    found = Converted(is_first=is_first)
    turns = list(found.convert(parts, 1, offset, policy, list(aborted), limit))
    assert set(turns) <= {TURN}
    assert turns
    sizes = [send.size for send in found.sends]
    data = b"".join(written(send) for send in found.sends)
    whole = MemoryRecords(data)
    return [record.offset for record in read(whole)], found.is_whole, sizes


def test_parts_are_as_large_as_fits_a_turn() -> None:
    batches = [large(n) for n in range(5)]
    parts = parts_of(*batches)
    sizes = [len(one) for one in batches]
    assert [part.size for part in parts.cut()] == [sum(sizes[:2]), sum(sizes[2:4]), sizes[4]]
    (whole,) = parts.cut(whole=True)
    assert whole.size == sum(sizes)
    exact = build([Record(0, 1, value=bytes(1000))], magic=2)
    count = TURN_SIZE // len(exact)
    assert [part.size for part in parts_of(*[exact] * (count + 1)).cut()] == [
        count * len(exact),
        len(exact),
    ]


def test_an_empty_range_has_no_parts() -> None:
    parts = parts_of(offset=7)
    assert (parts.cut(), parts.cut(whole=True), parts.following, parts.damage) == ([], [], 7, None)


@pytest.mark.parametrize("codecs", [[1, 0], [0, 1], [1, 1], [0, 0]])
def test_a_range_is_compressed_if_any_of_its_batches_is(codecs: list[int]) -> None:
    batches = [batch(n, codec=Codec(codec)) for n, codec in enumerate(codecs)]
    assert parts_of(*batches).is_compressed is any(codecs)


def test_the_following_offset_never_falls() -> None:
    """Offsets of a log that was copied together may fall. Reading goes on all the same."""
    assert parts_of(batch(3), batch(8), batch(5), offset=3).following == 9
    assert parts_of(batch(3), offset=50).following == 50


def test_damage_ends_the_parts_and_at_the_first_batch_it_is_raised() -> None:
    bad = flipped(batch(2), 8 * MAGIC_AT)
    good = batch(0) + batch(1)
    parts = parts_of(good, bad, batch(3))
    assert sum(part.size for part in parts.cut()) == len(good)
    assert (parts.following, isinstance(parts.damage, RecordsError)) == (2, True)
    (whole,) = parts.cut(whole=True)
    assert whole.size == len(good)
    with pytest.raises(RecordsError):
        parts_of(bad, batch(3)).cut()


def test_a_torn_batch_is_no_part_and_no_damage() -> None:
    parts = parts_of(batch(0), batch(1)[:-1])
    assert [part.size for part in parts.cut()] == [len(batch(0))]
    assert (parts.following, parts.damage) == (1, None)


@pytest.mark.parametrize(
    ("policy", "codec", "sends"),
    [
        (PLANNED, Codec.NONE, 1),
        (PLANNED, Codec.GZIP, 1),
        (TO_THE_END, Codec.NONE, 1),
        (TO_THE_END, Codec.GZIP, 3),  # compressed to be measured, so in parts
        (ESTIMATED, Codec.NONE, 1),
    ],
)
def test_a_range_is_cut_unless_it_is_planned(
    policy: ConversionPolicy, codec: Codec, sends: int
) -> None:
    parts = parts_of(*(large(n, codec=codec) for n in range(5)))
    offsets, is_whole, sizes = convert(parts, policy)
    assert len(sizes) == sends
    if policy is ESTIMATED:  # nothing follows what may be cut or filled
        assert (sizes[0] < TURN_SIZE, is_whole) == (True, False)
    elif policy is TO_THE_END or codec is Codec.NONE:  # else it ends early
        assert (offsets, is_whole) == ([0, 1, 2, 3, 4], True)
    else:
        assert offsets == list(range(len(offsets)))
        assert is_whole is (len(offsets) == 5)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_aborted_records_are_left_out_of_all_parts(codec: Codec) -> None:
    """A range with aborted transactions is not cut: a later marker says where each ends."""
    transactional = {"producer_id": 7, "producer_epoch": 0, "transactional": True}
    batches = []
    for n in (0, 1, 2, 4):
        record = Record(n, 1, value=NOISE.randbytes(TURN_SIZE * 3 // 5))
        options: dict[str, Any] = {} if n == 1 else transactional | {"base_sequence": n}
        batches.append(build([record], magic=2, codec=codec, **options))
    marker = build_marker(
        ControlRecordType.ABORT, producer_id=7, producer_epoch=0, offset=3, timestamp=1
    )
    parts = parts_of(*batches[:3], marker, batches[3])  # the last one is of another transaction
    for trims in (False, True):
        policy = ConversionPolicy(isolation="read_committed", trim_compressed=trims)
        offsets, is_whole, _ = convert(parts, policy, aborted=[AbortedTransaction(7, 0)])
        assert (offsets, is_whole) == ([1, 4], True)


def test_a_range_with_damage_in_a_later_part_is_not_whole() -> None:
    good = [large(n, codec=Codec.GZIP) for n in range(2)]
    for bad in (
        flipped(large(2, codec=Codec.GZIP), 8 * 60_000),
        flipped(large(2, codec=Codec.GZIP), 8 * MAGIC_AT),
    ):
        offsets, is_whole, _ = convert(parts_of(*good, bad, large(3)), TO_THE_END)
        assert (offsets, is_whole) == ([0, 1], False)
        with pytest.raises(RecordsError):
            convert(parts_of(bad, *good), TO_THE_END)


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("limit", [-5, 0, 10, 1 << 20])
def test_under_a_limit_only_a_responses_first_message_may_exceed_it(
    is_first: bool, limit: int
) -> None:
    parts = parts_of(*(large(n, codec=Codec.GZIP) for n in range(4)))
    offsets, is_whole, sizes = convert(parts, TO_THE_END, limit=limit, is_first=is_first)
    if limit == 1 << 20:
        assert (offsets, is_whole) == ([0, 1, 2, 3], True)
        return
    assert not is_whole
    assert offsets == ([0] if is_first else [])
    if is_first:
        assert sum(sizes) > TURN_SIZE * 2 // 5
    else:
        assert sum(sizes) == max(limit, 0)


def test_a_limit_is_used_up_by_all_parts_together() -> None:
    parts = parts_of(*(large(n, codec=Codec.GZIP) for n in range(4)))
    limit = TURN_SIZE * 2 * 3 // 5
    offsets, is_whole, sizes = convert(parts, TO_THE_END, limit=limit)
    assert (offsets, is_whole, sum(sizes)) == ([0, 1, 2], False, limit) or sum(sizes) <= limit
    assert len(offsets) < 4


def test_steps_are_closed_when_their_turns_end_or_are_left() -> None:
    ended: list[str] = []

    def steps(name: str) -> Generator[int, None, str]:
        try:
            yield WORK_A_TURN // 2
            yield WORK_A_TURN // 2
            yield WORK_A_TURN // 2
            return name
        finally:
            ended.append(name)

    kept = steps("left")
    turns = in_turns(kept)
    next(turns)
    next(turns)
    assert ended == []
    turns.close()
    assert ended == ["left"]
    assert len(list(in_turns(steps("whole")))) == 2
    assert ended == ["left", "whole"]
