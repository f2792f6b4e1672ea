"""One ordinary v2 batch is checked by one call of the kernel, with the same result."""

from dataclasses import replace
from random import Random

import pytest

from downconvert.broker.config import BrokerConfig
from downconvert.broker.topic_configs import append_config
from downconvert.protocol.errors import ApiError
from downconvert.serving import appending
from downconvert.serving.appending import prepare, prepare_in_turns, prepare_ordinary
from records import Codec, MemoryRecords, Record, TimestampType, backend, build
from records.formats import CONTROL, TRANSACTIONAL, V2
from records.steps import at_once
from tests.damage import damaged, mutated

NOW = 1_700_000_000_000
HOUR = 3_600_000
CONFIG = append_config({}, BrokerConfig())
RECORDS = [Record(i, NOW + i, TimestampType.CREATE, b"k%d" % i, b"v") for i in range(4)]


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("changes", [{}, {"is_append_time": True}, {"codec": Codec.LZ4}])
def test_an_ordinary_batch_is_prepared_as_any_other(
    codec: Codec, changes: dict[str, object]
) -> None:
    """Whatever its bytes are. Those that need more, or an error, are left."""
    config, random, ordinary = replace(CONFIG, **changes), Random(1), 0  # type: ignore[arg-type]
    good = build(RECORDS, magic=V2, codec=codec)
    for data in (good, *(mutated(good, random) for _ in range(500))):
        prepared = prepare_ordinary(data, config, NOW)
        if prepared is None:
            continue
        ordinary += 1
        records = MemoryRecords(data)
        expected = at_once(prepare_in_turns(records, records.batches(), config, NOW))
        assert expected is not None
        for field in ("data", "batches", "records_count", "log_append_time", "is_converted"):
            assert getattr(prepared, field) == getattr(expected, field)
    is_kept = config.codec in (None, codec) and backend.NAME == backend.NATIVE
    assert bool(ordinary) == is_kept


@pytest.mark.parametrize(
    ("field", "to"),
    [
        ("base_offset", 1),
        ("attributes", CONTROL),
        ("attributes", TRANSACTIONAL),
        ("last_offset_delta", 4),
        ("producer_id", 5),
        ("base_timestamp", NOW - 100 * 365 * 24 * HOUR),
    ],
)
def test_a_batch_with_an_error_is_not_ordinary(field: str, to: int) -> None:
    data = damaged(build(RECORDS, magic=V2), field=field, to=to)
    config = replace(CONFIG, before_max=HOUR)
    assert prepare_ordinary(data, config, NOW) is None
    with pytest.raises(ApiError):
        prepare(memoryview(data), config, NOW)


def test_a_batch_to_be_compressed_again_is_not_decompressed_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def summarize(*_: object, **__: object) -> None:
        pytest.fail("the records are read")

    monkeypatch.setattr("downconvert.serving.appending.summarize", summarize)
    data = build(RECORDS, magic=V2, codec=Codec.LZ4)
    assert prepare_ordinary(data, replace(CONFIG, codec=Codec.GZIP), NOW) is None


@pytest.mark.parametrize("size", [100, 400])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_a_batch_is_checked_in_turns_of_about_the_same_size(
    codec: Codec, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys and values count. The later turns are as long as the first one."""
    monkeypatch.setattr(appending, "TURN_SIZE", 100_000)
    pairs = [(b"k" * (size // 4), b"v" * (size - size // 4))] * 2_000
    records = [Record(i, NOW, TimestampType.CREATE, *pair) for i, pair in enumerate(pairs)]
    log = MemoryRecords(build(records, magic=V2, codec=codec))
    turns = sum(1 for _ in prepare_in_turns(log, log.batches(), CONFIG, NOW))
    total = 2_000 * size
    assert total // 220_000 <= turns <= total // 100_000
