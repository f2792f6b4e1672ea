"""ListOffsets: ends, times, and what version 0 makes of files.

Not here: the same requests to Kafka (test_differential.py)."""

import os
from pathlib import Path
from typing import Any

import pytest

from downconvert.broker import Broker
from downconvert.protocol.errors import ErrorCode
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.storage import Segment
from records import build_marker
from records.batches.control import ControlRecordType
from records.formats import MAGIC_AT, V0
from tests.downconvert.broker.asking import ask, begin, response_of
from tests.downconvert.broker.fetching import broker_of
from tests.downconvert.broker.transacting import NOW, Producing
from tests.downconvert.broker.writable import writable_broker
from tests.downconvert.storage.logs import batch

VERSIONS = range(12)
SEGMENTS = {0: [batch(0, 1), batch(2)], 3: [batch(3), batch(4, 5)]}


def listed(broker: Broker, version: int, timestamp: int, **fields: object) -> Message:
    asked = Message(partition_index=0, timestamp=timestamp, max_num_offsets=9)
    body = Message(**{"replica_id": -1} | fields, topics=[Message(name="t", partitions=[asked])])
    response = ask(broker, ApiKey.ListOffsets, version, body, now=2e9)
    partition = response.topics[0].partitions[0]
    assert isinstance(partition, Message)
    return partition


@pytest.mark.parametrize("version", VERSIONS)
def test_ends_are_known_in_every_version(version: int, tmp_path: Path) -> None:
    with broker_of(tmp_path, {"t": SEGMENTS}) as broker:
        latest, earliest = (listed(broker, version, timestamp) for timestamp in (-1, -2))
    if version == 0:
        assert latest.old_style_offsets == [6, 3, 0]
        assert earliest.old_style_offsets == [0]
    else:
        assert (latest.offset, latest.timestamp) == (6, -1)
        assert (earliest.offset, earliest.timestamp) == (0, -1)


@pytest.mark.parametrize("version", VERSIONS[1:])
@pytest.mark.parametrize(
    ("timestamp", "found"),
    [(0, (0, 0)), (15, (2, 20)), (20, (2, 20)), (50, (5, 50)), (51, (-1, -1))],
)
def test_a_time_leads_to_the_first_record_that_is_not_older(
    version: int, timestamp: int, found: tuple[int, int], tmp_path: Path
) -> None:
    with broker_of(tmp_path, {"t": SEGMENTS}) as broker:
        response = listed(broker, version, timestamp)
    assert (response.error_code, response.offset, response.timestamp) == (0, *found)


def test_the_youngest_record_is_found_wherever_it_is(tmp_path: Path) -> None:
    marker = build_marker(ControlRecordType.ABORT, offset=5, timestamp=10**9, producer_id=1)
    segments = {0: [batch(0), batch(1, timestamp=777), batch(2)], 3: [batch(3), batch(4), marker]}
    with broker_of(tmp_path, {"t": segments}) as broker:
        response = listed(broker, 7, -3)
    assert (response.offset, response.timestamp) == (1, 777)


def test_records_without_times_are_not_found_by_time(tmp_path: Path) -> None:
    with broker_of(tmp_path, {"t": {0: [batch(0, magic=V0)]}}) as broker:
        assert [listed(broker, 7, timestamp).offset for timestamp in (0, -3)] == [-1, -1]


@pytest.mark.parametrize(
    ("timestamp", "since"), [(-1, 0), (-2, 0), (-3, 7), (-4, 8), (-5, 9), (-6, 11), (-7, 99)]
)
def test_a_special_time_that_is_newer_than_the_version_is_refused(
    timestamp: int, since: int, tmp_path: Path
) -> None:
    with broker_of(tmp_path, {"t": SEGMENTS}) as broker:
        codes = [listed(broker, version, timestamp).error_code for version in VERSIONS]
    refused = ErrorCode.UNSUPPORTED_VERSION
    assert codes == [refused if version < since else 0 for version in VERSIONS]


def test_version_0_goes_by_when_files_were_changed(tmp_path: Path) -> None:
    with broker_of(tmp_path, {"t": SEGMENTS}) as broker:
        for base, seconds in ((0, 100), (3, 200)):
            os.utime(tmp_path / "t-0" / f"{base:020d}.log", (seconds, seconds))
        found = [listed(broker, 0, ms).old_style_offsets for ms in (99_999, 100_000, 200_000)]
        assert found == [[], [0], [3, 0]]
        assert listed(broker, 0, 3 * 10**12).old_style_offsets == [6, 3, 0]


@pytest.mark.parametrize(("count", "offsets"), [(-1, []), (0, []), (1, [6]), (2, [6, 3])])
def test_no_more_offsets_are_listed_than_asked_for(
    count: int, offsets: list[int], tmp_path: Path
) -> None:
    with broker_of(tmp_path, {"t": SEGMENTS}) as broker:
        asked = Message(partition_index=0, timestamp=-1, max_num_offsets=count)
        body = Message(replica_id=-1, topics=[Message(name="t", partitions=[asked])])
        response = ask(broker, ApiKey.ListOffsets, 0, body).topics[0].partitions[0]
    assert response.old_style_offsets == offsets


@pytest.mark.parametrize("version", VERSIONS)
def test_errors_are_returned_for_each_partition(version: int, tmp_path: Path) -> None:
    with broker_of(tmp_path, {"t": SEGMENTS}) as broker:
        asked = [Message(partition_index=index, timestamp=-1) for index in (0, 7)]
        body = Message(
            replica_id=-1,
            topics=[Message(name="t", partitions=asked), Message(name="x", partitions=asked[:1])],
        )
        response = ask(broker, ApiKey.ListOffsets, version, body)
        broker.topics["t"].partitions[0].leader = 9
        elsewhere = listed(broker, version, -1).error_code
    codes = [one.error_code for topic in response.topics for one in topic.partitions]
    assert codes == [0, 3, 3]
    assert elsewhere == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_partition_named_twice_is_refused_as_by_kafka(tmp_path: Path) -> None:
    with broker_of(tmp_path, {"t": SEGMENTS}) as broker:
        asked = [Message(partition_index=0, timestamp=timestamp) for timestamp in (-1, -2)]
        body = Message(replica_id=-1, topics=[Message(name="t", partitions=asked)])
        response = ask(broker, ApiKey.ListOffsets, 5, body)
    assert [one.error_code for one in response.topics[0].partitions] == [42, 42]


def test_version_0_looks_once_at_a_partition_that_is_named_many_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = []
    with broker_of(tmp_path, {"t": SEGMENTS}) as broker:
        path_of = Segment.path
        monkeypatch.setattr(Segment, "path", lambda *args: looks.append(0) or path_of(*args))
        asked = [Message(partition_index=0, timestamp=-1, max_num_offsets=2) for _ in range(50)]
        body = Message(replica_id=-1, topics=[Message(name="t", partitions=asked)])
        (response,) = ask(broker, ApiKey.ListOffsets, 0, body).topics
    assert [one.old_style_offsets for one in response.partitions] == [[6, 3]] * 50
    assert len(looks) == len(SEGMENTS)


@pytest.mark.parametrize(("version", "timestamp"), [(6, -3), (7, -4), (8, -5), (9, -99)])
def test_a_special_time_that_is_newer_than_the_version_is_refused_for_any_partition(
    tmp_path: Path, version: int, timestamp: int
) -> None:
    with writable_broker(tmp_path, "t") as broker:
        asked = [Message(partition_index=index, timestamp=timestamp) for index in (0, 7)]
        body = Message(replica_id=-1, topics=[Message(name="t", partitions=asked)])
        (topic,) = ask(broker, ApiKey.ListOffsets, version, body).topics
        assert {one.error_code for one in topic.partitions} == {ErrorCode.UNSUPPORTED_VERSION}


def test_a_read_committed_client_sees_no_offset_of_an_open_transaction(tmp_path: Path) -> None:
    """Neither by its time, nor as the end. A replica gets the log's end."""
    with writable_broker(tmp_path, "t", partitions=2) as broker:
        producer = Producing(broker)
        producer.begin()
        producer.write([b"a", b"b"])
        for isolation, first, end in ((0, 0, 2), (1, -1, 0)):
            asked = {"isolation_level": isolation}
            assert listed(broker, 7, int(NOW * 1000), **asked).offset == first
            assert listed(broker, 7, -1, **asked).offset == end
            assert listed(broker, 7, -1, **asked, replica_id=-2).offset == 2


@pytest.mark.parametrize("version", VERSIONS[2:])
def test_an_isolation_level_that_there_is_not_is_refused(version: int, tmp_path: Path) -> None:
    with broker_of(tmp_path, {"t": SEGMENTS}) as broker:
        codes = [
            listed(broker, version, -1, isolation_level=level).error_code for level in (0, 1, 2, -1)
        ]
    assert codes == [0, 0, ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST]


def test_a_request_of_many_partitions_is_answered_in_turns(tmp_path: Path) -> None:
    """Other clients of the thread are served in between."""
    with writable_broker(tmp_path, "t", partitions=40) as broker:
        asked = [Message(partition_index=index, timestamp=5) for index in range(40)]
        body = Message(replica_id=-1, topics=[Message(name="t", partitions=asked)])
        exchange, turns = begin(broker, ApiKey.ListOffsets, 1, body), 1
        while not exchange.is_done:
            broker.tick(0.0)
            turns += 1
        (topic,) = response_of(exchange).topics
        one = begin(broker, ApiKey.ListOffsets, 1, body_of(0))
    assert turns == 3
    assert [one.partition_index for one in topic.partitions] == list(range(40))
    assert one.is_done


def body_of(*indices: int) -> Message:
    asked = [Message(partition_index=index, timestamp=-1, max_num_offsets=9) for index in indices]
    return Message(replica_id=-1, topics=[Message(name="t", partitions=asked)])


def test_version_0_looks_at_the_files_of_a_partition_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request of a megabyte names a partition a hundred thousand times."""
    looks = []
    path = Segment.path

    def counted(segment: Segment, *arguments: Any) -> Path:
        looks.append(segment)
        return path(segment, *arguments)

    with broker_of(tmp_path, {"t": SEGMENTS}) as broker:
        ask(broker, ApiKey.ListOffsets, 0, body_of(0))
        monkeypatch.setattr(Segment, "path", counted)
        (topic,) = ask(broker, ApiKey.ListOffsets, 0, body_of(*[0] * 1000)).topics
    assert [one.old_style_offsets for one in topic.partitions] == [[6, 3, 0]] * 1000
    assert len(looks) < 20


def test_the_youngest_record_is_found_without_reading_what_follows_it(tmp_path: Path) -> None:
    """The rest of a segment may be a gigabyte. Here it is damaged: reading it would fail."""
    with writable_broker(tmp_path, "t") as broker:
        partition = broker.topics.partition("t", 0)
        assert partition is not None
        for offset, timestamp in enumerate((10, 900, 20, 30)):
            partition.log.writer.append(batch(offset, timestamp=timestamp))
        log = tmp_path / "t-0" / f"{0:020d}.log"
        data = bytearray(log.read_bytes())
        data[3 * len(data) // 4 + MAGIC_AT] = 9
        log.write_bytes(data)
        found = listed(broker, 7, -3)
    assert (found.error_code, found.offset, found.timestamp) == (0, 1, 900)


def test_version_0_answers_each_question_about_a_partition(tmp_path: Path) -> None:
    with broker_of(tmp_path, {"t": SEGMENTS}) as broker:
        questions = [(-1, 9), (-1, 1), (-2, 9), (-1, 2), (-1, 9)]
        asked = [
            Message(partition_index=0, timestamp=timestamp, max_num_offsets=count)
            for timestamp, count in questions
        ]
        body = Message(replica_id=-1, topics=[Message(name="t", partitions=asked)])
        (topic,) = ask(broker, ApiKey.ListOffsets, 0, body).topics
    found = [one.old_style_offsets for one in topic.partitions]
    assert found == [[6, 3, 0], [6], [0], [6, 3], [6, 3, 0]]
