"""No id is given twice: not after a restart, not by another node, and none that a log knows."""

from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from downconvert.broker.transactions.producer_ids import BLOCK_SIZE, FILE_NAME
from downconvert.storage import StorageError
from downconvert.storage.segments.segment_writer import SegmentWriter
from tests.downconvert.broker.writable import writable_broker
from tests.downconvert.storage.logs import batch


def test_ids_are_others_after_a_restart_and_of_other_nodes(tmp_path: Path) -> None:
    given = []
    for node_id in (0, 0, 1):
        with writable_broker(tmp_path, node_id=node_id) as broker:
            given += [broker.producer_ids.take() for _ in range(BLOCK_SIZE + 5)]
    assert len(set(given)) == len(given)
    assert all(0 <= producer_id < 2**63 for producer_id in given)
    assert {one >> 40 for one in given} == {0, 1}  # the node, however many are given


def test_ids_that_a_log_knows_are_left_out(tmp_path: Path) -> None:
    with writable_broker(tmp_path, "t") as broker:
        partition = broker.topics.partition("t", 0)
        assert partition is not None
        for offset, known in enumerate((0, 1, 3)):
            partition.log.writer.append(
                batch(offset, producer_id=known, producer_epoch=0, base_sequence=0)
            )
        assert [broker.producer_ids.take() for _ in range(3)] == [2, 4, 5]


def test_taken_ids_are_searched_once_for_each_block(tmp_path: Path) -> None:
    """Else each new producer would cost as much as there are partitions and transactional ids, and
    other clients would wait."""
    searches = 0

    def known() -> list[int]:
        nonlocal searches
        searches += 1
        return [1, BLOCK_SIZE + 1]

    with writable_broker(tmp_path) as broker:
        given = [broker.producer_ids.take(known) for _ in range(BLOCK_SIZE + 5)]
        assert searches == 2
        assert given == [one for one in range(BLOCK_SIZE + 7) if one not in known()]


def test_an_append_in_progress_loses_no_producer_while_an_id_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the states would be read again from the log without the batch that comes next."""
    with writable_broker(tmp_path, "t") as broker:
        partition = broker.topics["t"].partitions[0]
        writer = partition.log.writer
        taking = Thread(target=broker.producer_ids.take)
        append = SegmentWriter.append

        def append_late(*arguments: Any) -> None:
            taking.start()
            taking.join(0.1)  # it ends here, unless it waits for this append
            append(*arguments)

        writer.append(batch(0, producer_id=7, producer_epoch=0, base_sequence=0))
        with monkeypatch.context() as late, partition.lock:
            late.setattr(SegmentWriter, "append", append_late)
            writer.append(batch(1, producer_id=8, producer_epoch=0, base_sequence=0))
        taking.join()
        writer.append(batch(2))
        assert sorted(writer.producers) == [7, 8]


def test_the_number_in_the_file_has_twelve_digits_at_most(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text("123456789012")
    with writable_broker(tmp_path, node_id=0) as broker:
        assert broker.producer_ids.take() == 123456789012


def test_no_id_is_given_before_its_block_is_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError("the disk")

    with writable_broker(tmp_path) as broker:
        with monkeypatch.context() as failing:
            failing.setattr("downconvert.broker.transactions.producer_ids.replace_file", fail)
            with pytest.raises(OSError, match="the disk"):
                broker.producer_ids.take()
        broker.producer_ids.take()
    assert (tmp_path / FILE_NAME).read_text() == f"{BLOCK_SIZE}\n"


@pytest.mark.parametrize("text", ["", "x", "-5", "9" * 20])
def test_a_damaged_file_gives_no_ids(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE_NAME).write_text(text)
    with writable_broker(tmp_path) as broker, pytest.raises(StorageError, match=FILE_NAME):
        broker.producer_ids.take()
