"""A topic that is deleted and recreated under a stream is another topic."""

import shutil
from pathlib import Path

import pytest

from downconvert.spark.errors import DataLossError
from downconvert.spark.logs.places import Json, Place, Wait, from_json, to_json
from downconvert.storage import TopicPartition
from tests.downconvert.storage.logs import batch

from .reading import packed, partition
from .stream.test_follow import read, stream

IDS = "AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg"


def made(path: Path, count: int, topic_id: str | None) -> None:
    shutil.rmtree(path / "a-0", ignore_errors=True)
    directory = partition(path, batch(*range(count), leader_epoch=0), "a-0")
    if topic_id is not None:
        (directory / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}")


@pytest.mark.parametrize("is_new", [False, True])
@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize("count", [5, 10, 15])
def test_offsets_of_the_former_topic_do_not_count_for_the_new_one(
    tmp_path: Path, count: int, is_packed: bool, is_new: bool
) -> None:
    logs = tmp_path / "logs"
    path = tmp_path / "logs.tar" if is_packed else logs

    def make(count: int, topic_id: str) -> None:
        made(logs, count, topic_id)
        packed(logs)

    make(10, IDS[0])
    strict, lenient = stream(path), stream(path, failOnDataLoss=False)
    start: Json = {"a": {"0": 0}}
    place = lenient.latestOffset(start)
    assert place == strict.latestOffset(start)
    assert place == {"a": {"0": {"offset": 10, "leaderEpoch": 0, "topicId": IDS[0]}}}
    assert len(read(lenient, start, place)) == 10
    make(count, IDS[1])
    if is_new:
        strict, lenient = stream(path), stream(path, failOnDataLoss=False)
    with pytest.raises(DataLossError, match="a-0 was deleted and recreated after it was read up"):
        strict.latestOffset(place)
    with pytest.warns(RuntimeWarning, match=f"has the id {IDS[1]} now, and had {IDS[0]}"):
        end = lenient.latestOffset(place)
    with pytest.warns(RuntimeWarning, match="was deleted and recreated"):
        found = read(lenient, place, end)
    assert found == [f"a-0:{offset}" for offset in range(count)]
    assert end == {"a": {"0": {"offset": count, "leaderEpoch": 0, "topicId": IDS[1]}}}
    assert lenient.latestOffset(end) == end
    with pytest.raises(DataLossError, match="recreated after it was seen to go up to 10"):
        read(stream(path), start, place)


def test_checkpoints_without_an_id_are_read_on_from(tmp_path: Path) -> None:
    made(tmp_path, 10, IDS[0])
    source = stream(tmp_path)
    before: Json = {"a": {"0": {"offset": 4, "leaderEpoch": 0}}}
    end = source.latestOffset(before)
    assert end["a"]["0"]["topicId"] == IDS[0]
    assert read(source, before, end) == [f"a-0:{offset}" for offset in range(4, 10)]
    made(tmp_path, 12, None)
    assert stream(tmp_path).latestOffset(end)["a"]["0"]["offset"] == 12


@pytest.mark.parametrize("brokers", [("b1",), ("b1", "b2")])
@pytest.mark.parametrize("count", [10, 15])
def test_an_id_that_is_copied_after_the_logs_is_compared_with_the_former_one(
    tmp_path: Path, count: int, brokers: tuple[str, ...]
) -> None:
    """Tools copy in the order of names: partition.metadata comes last."""

    def make(count: int, topic_id: str | None) -> None:
        for broker in brokers:
            made(tmp_path / broker, count, topic_id)

    make(10, IDS[0])
    source = stream(tmp_path)
    place = source.latestOffset({"a": {"0": 0}})
    make(count, None)
    place = source.latestOffset(place)
    assert place == {"a": {"0": {"offset": count, "leaderEpoch": 0, "topicId": IDS[0]}}}
    make(count, IDS[1])
    with pytest.raises(DataLossError, match="a-0 was deleted and recreated after it was read up"):
        source.latestOffset(place)


@pytest.mark.parametrize("knowing", ["b1", "b2"])
def test_the_id_of_any_copy_is_that_of_the_topic(tmp_path: Path, knowing: str) -> None:
    def make(topic_id: str) -> None:
        for broker in ("b1", "b2"):
            made(tmp_path / broker, 10, topic_id if broker == knowing else None)

    make(IDS[0])
    source = stream(tmp_path)
    place = source.latestOffset({"a": {"0": 0}})
    assert place == {"a": {"0": {"offset": 10, "leaderEpoch": 0, "topicId": IDS[0]}}}
    make(IDS[1])
    with pytest.raises(DataLossError, match=f"has the id {IDS[1]} now, and had {IDS[0]}"):
        source.latestOffset(place)


@pytest.mark.parametrize("count", [10, 15])
def test_an_earlier_epoch_than_was_read_is_no_truncation(tmp_path: Path, count: int) -> None:
    """Nothing says which topic it is: it counts its leaders from 0 again, or is an old copy."""
    partition(tmp_path, batch(*range(10), leader_epoch=3), "a-0")
    place = stream(tmp_path).latestOffset({"a": {"0": 0}})
    made(tmp_path, count, None)
    what = "a-0 was read up to 10 in leader epoch 3, and has epoch 0 there: it was deleted"
    with pytest.raises(DataLossError, match=what):
        stream(tmp_path).latestOffset(place)
    lenient = stream(tmp_path, failOnDataLoss=False)
    with pytest.warns(RuntimeWarning, match=what):
        end = lenient.latestOffset(place)
    with pytest.warns(RuntimeWarning, match=what):
        assert read(lenient, place, end) == [f"a-0:{offset}" for offset in range(10, count)]


def test_a_place_comes_back_from_json() -> None:
    name = TopicPartition("a", 0)
    for place in (
        Place(5),
        Place(5, 3),
        Place(5, topic_id="x"),
        Place(5, 3, Wait(1, 2)),
        Place(5, 3, Wait(1, 2), "x"),
    ):
        assert from_json(to_json({name: place})) == {name: place}
