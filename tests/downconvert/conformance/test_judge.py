"""The judge's findings in wrong responses, rule by rule."""

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from downconvert.conformance.connection import ConformanceError, SilentError
from downconvert.conformance.fetching import LARGE
from downconvert.conformance.judge import Case, cases
from downconvert.conformance.plans import Batch, Plan
from downconvert.conformance.writing import Written
from downconvert.conversion.filler import filler
from downconvert.protocol.schemas import ApiKey, Message
from records import Codec, Record, TimestampType, build
from tests.damage import damaged

RECORDS = tuple(Record(n, 1000 + n, key=b"k", value=b"%d" % n) for n in range(4))
PLAN = Plan("plain", "four records", (Batch(Codec.NONE, RECORDS),))
WRITTEN = Written(PLAN, "t", bytes(16), ("b", 1), (0,), 200)
Response = Callable[[int, int, int], tuple[bytes, int]]


def log(
    magic: int, first: int = 0, *, codec: Codec = Codec.NONE, records: tuple[Record, ...] = RECORDS
) -> bytes:
    """The records from an offset on, in a format."""
    left = [
        Record(r.offset, -1 if magic == 0 else r.timestamp,
               TimestampType.NONE if magic == 0 else r.timestamp_type, r.key, r.value)
        for r in records if r.offset >= first
    ]  # fmt: skip
    return bytes(build(left, magic=magic, codec=codec)) if left else b""


class Crooked:
    """A cluster that answers one version as a test says."""

    def __init__(self, version: int, response: Response) -> None:
        self.version = version
        self.response = response
        self.silent = set[int]()

    def offers(self, _: ApiKey) -> range:
        return range(self.version, self.version + 1)

    def at(self, _: object) -> "Crooked":
        return self

    def renew(self, _: object) -> None:
        pass

    def ask(self, _: ApiKey, version: int, body: Message) -> Any:
        [part] = body.topics[0].partitions
        data, error = self.response(version, part.fetch_offset, part.partition_max_bytes)
        one = SimpleNamespace(error_code=error, records=data, high_watermark=4)
        return SimpleNamespace(responses=[SimpleNamespace(partitions=[one])])


def judged(version: int, response: Response) -> Case:
    """Read with the limit that has room for the first batch."""
    crooked: Any = Crooked(version, response)
    return next(case for case in cases(crooked, WRITTEN) if case.limit == "first batch")


def rules(case: Case) -> set[str]:
    return {finding.rule for finding in case.findings}


def magic_of(version: int) -> int:
    return 0 if version < 2 else 1 if version < 4 else 2


@pytest.mark.parametrize("version", range(6))
def test_right_responses_are_right(version: int) -> None:
    case = judged(version, lambda version, offset, _: (log(magic_of(version), offset), 0))
    assert not case.findings
    assert case.bytes_sent


def test_a_message_that_is_cut_off_is_right_and_is_sent_again() -> None:
    case = judged(1, lambda _v, offset, _l: (log(0, offset)[:-5] if offset < 3 else log(0, 3), 0))
    assert not case.findings
    assert case.bytes_again > 0


@pytest.mark.parametrize(
    ("rule", "version", "response"),
    [
        ("answer", 1, lambda _v, _o, _l: (b"", 1)),
        ("format", 1, lambda _v, offset, _l: (log(1, offset), 0)),
        ("format", 3, lambda _v, offset, _l: (log(2, offset), 0)),
        ("damage", 1, lambda _v, offset, _l: (bytearray(log(0, offset)).replace(b"3", b"4"), 0)),
        ("filler", 1, lambda _v, offset, _l: (log(0, offset) + filler(70), 0)),
        ("filler", 1, lambda _v, offset, _l: (log(0, offset) + filler(20), 0)),
        ("stuck", 1, lambda _v, _o, _l: (log(0, records=RECORDS[:2]), 0)),
        ("stuck", 3, lambda _v, _o, _l: (filler(100), 0)),
        ("once", 1, lambda _v, offset, _l: (log(0, offset) * 2, 0)),
        ("once", 4, lambda _v, offset, _l: (log(2, offset) * 2, 0)),
        ("equal", 1, lambda _v, _o, _l: (log(0, records=tuple(
            Record(r.offset, r.timestamp, key=b"other", value=r.value) for r in RECORDS)), 0)),
        ("equal", 3, lambda _v, _o, _l: (log(1, records=tuple(
            Record(r.offset, r.timestamp + 1, key=r.key, value=r.value) for r in RECORDS)), 0)),
        ("all", 1, lambda _v, offset, _l: (log(0, offset, records=RECORDS[1:]), 0)),
        ("all", 1, lambda _v, offset, _l: (log(0, offset, records=(
            *RECORDS, Record(9, 1, value=b"nobody"))), 0)),
        ("codec", 9, lambda _v, offset, _l: (log(2, offset, codec=Codec.ZSTD), 0)),
    ],
)  # fmt: skip
def test_each_broken_rule_is_found(rule: str, version: int, response: Response) -> None:
    assert rule in rules(judged(version, response))


def test_a_compacted_topic_needs_only_the_last_record_of_each_key() -> None:
    plan = replace(PLAN, config={"cleanup.policy": "compact"})  # all of one key
    written = replace(WRITTEN, plan=plan)

    def found(first: int, last: int) -> set[str]:
        crooked: Any = Crooked(
            1, lambda _v, offset, _l: (log(0, max(first, offset), records=RECORDS[:last]), 0)
        )
        return rules(next(case for case in cases(crooked, written) if case.limit == "1 MiB"))

    assert found(3, 4) == set()
    assert found(1, 4) == set()
    assert "all" in found(0, 3)


def test_headers_and_times_are_those_that_the_log_has_room_for() -> None:
    sent = replace(RECORDS[0], headers=(("a", b"1"),))
    written = replace(WRITTEN, plan=Plan("v1", "", (Batch(Codec.NONE, (sent,)),), {}, magic=1))
    crooked: Any = Crooked(4, lambda _v, _o, _l: (log(1, records=RECORDS[:1]), 0))
    assert not rules(next(iter(cases(crooked, written)))) & {"equal"}


def test_a_broken_limit_is_found_but_one_large_message_is_allowed() -> None:
    crooked: Any = Crooked(1, lambda _v, offset, _l: (log(0, offset), 0))
    smallest = next(case for case in cases(crooked, WRITTEN) if case.limit == "1")
    assert rules(smallest) == {"limit"}
    crooked = Crooked(1, lambda _v, offset, _l: (log(0, offset, records=RECORDS[:1]), 0))
    assert not next(case for case in cases(crooked, WRITTEN) if case.limit == "1").findings


def test_a_broker_that_hangs_up_is_judged_for_it() -> None:
    def response(_version: int, _offset: int, _limit: int) -> tuple[bytes, int]:
        raise ConformanceError("it closed the connection")

    assert rules(judged(1, response)) == {"answer"}


def test_a_reading_ends_however_little_each_response_brings() -> None:
    case = judged(4, lambda _v, offset, _l: (log(2, records=(Record(offset, 1000),)), 0))
    assert "all" in rules(case) or "equal" in rules(case)


def test_a_bomb_takes_no_memory() -> None:
    """Records that nobody sent are not kept, and one that is larger than any sent is damage."""
    bomb = log(2, codec=Codec.GZIP, records=(Record(0, 1, value=bytes(40_000_000)),))
    assert "damage" in rules(judged(4, lambda _v, _o, _l: (bomb, 0)))


def test_a_version_without_a_response_in_time_is_asked_once() -> None:
    """Thirty seconds for each topic and limit would be hours."""
    asked = 0

    def silent(_version: int, _offset: int, _limit: int) -> tuple[bytes, int]:
        nonlocal asked
        asked += 1
        raise SilentError("b:1: Fetch v1: no response within 30 s")

    crooked: Any = Crooked(1, silent)
    found = [*cases(crooked, WRITTEN), *cases(crooked, WRITTEN)]
    assert [rules(case) for case in found] == [{"answer"}] * 6
    assert asked == 1
    crooked.version = 2
    assert len(list(cases(crooked, WRITTEN))) == 3
    assert asked == 2, "another version is asked"


def test_a_large_record_needs_a_large_limit_below_version_3() -> None:
    """A client that fetches less than the record is stuck by its own mistake."""
    written = replace(WRITTEN, plan=replace(PLAN, name="large"))

    def cut(_version: int, offset: int, limit: int) -> tuple[bytes, int]:
        return log(1, offset)[: 20 if limit < LARGE else None], 0

    crooked: Any = Crooked(2, cut)
    assert [rules(case) for case in cases(crooked, written)] == [set(), set(), set()]
    crooked.version = 3
    assert "stuck" in rules(next(iter(cases(crooked, written))))


def test_a_client_of_v2_goes_on_after_the_last_offset_of_a_batch() -> None:
    """Its last records were removed by compaction."""
    positions = list[int]()

    def emptied(_version: int, offset: int, _limit: int) -> tuple[bytes, int]:
        positions.append(offset)
        return damaged(log(2, records=RECORDS[:2]), field="last_offset_delta", to=3), 0

    judged(4, emptied)
    assert set(positions) == {0}
