"""Records are refused one by one, and fine ones are recognised at once."""

from dataclasses import replace
from itertools import product

import pytest

from downconvert.broker.config import BrokerConfig
from downconvert.broker.topic_configs import append_config
from downconvert.protocol.errors import ErrorCode
from downconvert.serving.record_checks import (
    ERRORS_MAX,
    RecordChecks,
    RefusedRecordsError,
    are_fine,
)
from records import Record
from records.formats import NO_TIMESTAMP, V0, V1, TimestampType

NOW = 1_000_000
CONFIG = replace(append_config({}, BrokerConfig()), before_max=1000, after_max=500)
TIMESTAMPS = (-2, NO_TIMESTAMP, 0, NOW - 1001, NOW - 1000, NOW, NOW + 500, NOW + 501)
CREATE, LOG_APPEND = TimestampType.CREATE, TimestampType.LOG_APPEND


@pytest.mark.parametrize("is_compacted", [False, True])
@pytest.mark.parametrize("is_append_time", [False, True])
@pytest.mark.parametrize("kind", [CREATE, LOG_APPEND])
def test_no_record_with_an_error_is_taken_for_fine(
    kind: TimestampType, is_append_time: bool, is_compacted: bool
) -> None:
    config = replace(CONFIG, is_append_time=is_append_time, is_compacted=is_compacted)
    for timestamp, has_key in product(TIMESTAMPS, (False, True)):
        checks = RecordChecks(config, NOW)
        checks.check(0, timestamp, kind, has_key)
        if are_fine(config, NOW, kind, timestamp, timestamp, have_keys=has_key):
            checks.finish()  # it raises nothing


@pytest.mark.parametrize("timestamp", [NOW, -2, NOW + 501])
@pytest.mark.parametrize("kind", [CREATE, LOG_APPEND])
def test_a_record_with_several_errors_is_named_once(kind: TimestampType, timestamp: int) -> None:
    """The key comes first, as in Kafka. A later record may have another error."""
    config = replace(CONFIG, is_compacted=True)
    for later, code in ((NOW, ErrorCode.INVALID_RECORD), (-2, ErrorCode.INVALID_TIMESTAMP)):
        checks = RecordChecks(config, NOW)
        checks.check(0, timestamp, kind, has_key=False)
        checks.check(1, later, CREATE, has_key=True)
        with pytest.raises(RefusedRecordsError, match="without a key") as caught:
            checks.finish()
        indexes = [index for index, _ in caught.value.records]
        assert (caught.value.code, indexes) == (code, [0] if later == NOW else [0, 1])


def test_the_usual_records_are_fine() -> None:
    assert are_fine(CONFIG, NOW, CREATE, NOW - 1000, NOW + 500, have_keys=False)
    assert not are_fine(CONFIG, NOW, CREATE, NOW - 1001, NOW, have_keys=True)
    assert not are_fine(CONFIG, NOW, CREATE, NOW, NOW + 501, have_keys=True)


def test_an_error_names_the_first_refused_records() -> None:
    checks = RecordChecks(CONFIG, NOW)
    checks.check_all(5, [NOW, -2, *[NOW + 501] * 200], CREATE, [0] * 202)
    with pytest.raises(RefusedRecordsError, match="timestamp -2 is negative") as caught:
        checks.finish()
    assert caught.value.code is ErrorCode.INVALID_TIMESTAMP
    assert [index for index, _ in caught.value.records] == list(range(6, 6 + ERRORS_MAX))


@pytest.mark.parametrize(
    ("magic", "other"), [(V0, (NOW, TimestampType.NONE)), (V1, (NO_TIMESTAMP, TimestampType.NONE))]
)
def test_a_record_that_has_not_the_format_of_its_batch_is_named(
    magic: int, other: tuple[int, TimestampType]
) -> None:
    """A v1 message inside a v0 message has a time, and the type of time of the v0 message."""
    usual = (NO_TIMESTAMP, TimestampType.NONE) if magic == V0 else (NO_TIMESTAMP, CREATE)
    checks = RecordChecks(CONFIG, NOW)
    for index, (timestamp, kind) in enumerate((usual, other, usual)):
        checks.check_record(magic, index, Record(index, timestamp, kind, None, b""))
    with pytest.raises(RefusedRecordsError, match=f"not in the format of its batch, v{magic}") as e:
        checks.finish()
    assert (e.value.code, [index for index, _ in e.value.records]) == (
        ErrorCode.INVALID_RECORD,
        [1],
    )
