"""Producers' states: followed as a broker follows them, read and written as it does."""

from pathlib import Path
from typing import Any

import pytest
from crc32c import crc32c

from downconvert.storage import AbortedTransaction, CorruptFileError
from downconvert.storage.disk.files import DISK
from downconvert.storage.producers.producer_state import (
    ProducerState,
    ProducerStates,
    read_marker,
    read_snapshot,
    write_snapshot,
)
from records import MemoryRecords
from records.batches.builder import build_marker
from records.batches.control import ControlRecordType
from tests.downconvert.storage.logs import batch

SNAPSHOT = "txn-none-0/00000000000000000193.snapshot"


def data(*at: int, producer: int = 1, epoch: int = 0, transactional: bool = True) -> bytes:
    return batch(
        *at,
        producer_id=producer,
        producer_epoch=epoch,
        base_sequence=at[0],
        transactional=transactional,
    )


def ended(
    at: int, producer: int = 1, epoch: int = 0, kind: ControlRecordType = ControlRecordType.ABORT
) -> bytes:
    return build_marker(
        kind,
        offset=at,
        timestamp=99,
        producer_id=producer,
        producer_epoch=epoch,
        coordinator_epoch=5,
    )


def follow(states: ProducerStates, *batches: bytes) -> list[AbortedTransaction]:
    found = []
    for part in batches:
        records = MemoryRecords(part)
        header = next(records.batches())
        entry = states.update(header, read_marker(records, header))
        found += [] if entry is None else [entry]
    return found


def test_the_last_batch_of_each_producer_is_known() -> None:
    states = ProducerStates()
    follow(states, data(3, 4, 5, transactional=False), data(9, producer=2), batch(10))
    assert states.producers == {
        1: ProducerState(1, 0, 5, 5, 2, 50, -1, -1),
        2: ProducerState(2, 0, 9, 9, 0, 90, -1, 9),
    }


def test_an_aborted_transaction_has_the_last_stable_offset_of_its_time() -> None:
    states = ProducerStates()
    assert follow(
        states, data(0), data(1, producer=2), data(2), ended(3), ended(4, producer=2)
    ) == [AbortedTransaction(1, 0, 3, 1), AbortedTransaction(2, 1, 4, 5)]
    assert states.first_open_offset is None


def test_a_commit_ends_a_transaction_too() -> None:
    states = ProducerStates()
    assert follow(states, data(0)) == []
    assert states.first_open_offset == 0
    assert follow(states, ended(1, kind=ControlRecordType.COMMIT)) == []
    assert states.first_open_offset is None
    assert states.producers[1].coordinator_epoch == 5


def test_a_marker_of_no_transaction_aborts_nothing() -> None:
    assert follow(ProducerStates(), ended(0), ended(1)) == []


def test_a_marker_that_already_has_the_next_epoch_ends_its_transaction() -> None:
    """As since 4.0. Sequence and offset of the last batch are forgotten with the epoch."""
    states = ProducerStates()
    assert follow(states, data(0), ended(1, epoch=1)) == [AbortedTransaction(1, 0, 1, 2)]
    assert states.producers[1] == ProducerState(1, 1, -1, -1, 0, 99, 5, -1)


def test_other_control_batches_end_no_transaction(real: Path) -> None:
    path = real / "3.9.1" / "log" / "__cluster_metadata-0" / "00000000000000000000.log"
    records = MemoryRecords(path.read_bytes())
    control = [header for header in records.batches() if header.is_control]
    assert control
    assert [read_marker(records, header) for header in control] == [None] * len(control)


def test_states_of_some_producers_can_be_restored() -> None:
    states = ProducerStates()
    follow(states, data(0))
    before = dict(states.producers)
    kept = states.of([1, 2])
    follow(states, data(1), data(2, producer=2))
    states.restore(kept)
    assert states.producers == before


def test_a_written_snapshot_equals_a_brokers(real: Path, tmp_path: Path) -> None:
    path = real / "3.9.1" / "log" / SNAPSHOT
    states = read_snapshot(path)
    assert len(states.producers) == 2
    write_snapshot(DISK, tmp_path / "s", states)
    assert (tmp_path / "s").read_bytes() == path.read_bytes()


def test_an_empty_snapshot_is_read(tmp_path: Path) -> None:
    write_snapshot(DISK, tmp_path / "s", ProducerStates())
    assert read_snapshot(tmp_path / "s").producers == {}
    assert (tmp_path / "s").stat().st_size == 10


@pytest.mark.parametrize(
    ("at", "to", "reason"),
    [(1, 2, "version 2"), (5, 0, "checksum"), (9, 3, "checksum"), (20, 255, "checksum")],
)
def test_a_damaged_snapshot_is_an_error(
    real: Path, tmp_path: Path, at: int, to: int, reason: str
) -> None:
    found = bytearray((real / "3.9.1" / "log" / SNAPSHOT).read_bytes())
    found[at] = to
    (tmp_path / "s").write_bytes(found)
    with pytest.raises(CorruptFileError, match=reason):
        read_snapshot(tmp_path / "s")


def test_a_snapshot_of_a_wrong_size_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "s").write_bytes(b"\x00\x01\x00")
    with pytest.raises(CorruptFileError, match="too short"):
        read_snapshot(tmp_path / "s")
    body = (2**31 - 1).to_bytes(4, "big")
    (tmp_path / "s").write_bytes(b"\x00\x01" + crc32c(body).to_bytes(4, "big") + body)
    with pytest.raises(CorruptFileError, match="2147483647 producers"):
        read_snapshot(tmp_path / "s")


def test_the_first_open_transaction_is_found_without_visiting_all_producers() -> None:
    class Counted(dict[int, ProducerState]):
        looks = 0

        def values(self) -> Any:
            Counted.looks += 1
            return super().values()

    states = ProducerStates()
    states.producers = Counted()
    follow(states, *[data(at, producer=at) for at in range(50)])
    assert states.first_open_offset == 0
    follow(states, ended(50, 0), ended(51, 2))
    assert states.first_open_offset == 1
    follow(states, data(52, producer=0), ended(53, 1))
    assert states.first_open_offset == 3
    assert Counted.looks == 0


def test_open_transactions_are_read_back_in_order() -> None:
    opened = [ProducerState(1, 0, transaction_start=9), ProducerState(2, 0, transaction_start=4)]
    states = ProducerStates(opened)
    assert states.first_open_offset == 4
    before = states.of([2, 3])
    follow(states, ended(10, 2), data(11, producer=3))
    assert states.first_open_offset == 9
    states.restore(before)
    assert states.first_open_offset == 4
    assert 3 not in states.producers


def test_a_producer_expires_at_its_age_unless_a_transaction_is_open() -> None:
    states = ProducerStates(
        [
            ProducerState(1, 0, timestamp=100),
            ProducerState(2, 0, timestamp=101),
            ProducerState(3, 0, timestamp=0, transaction_start=7),
        ]
    )
    assert states.expire(1100, 1000) == 1
    assert sorted(states.producers) == [2, 3]
    assert states.first_open_offset == 7


def test_a_new_epoch_keeps_the_transaction_and_the_coordinator() -> None:
    """As when the coordinator fences a producer: the marker comes with the next epoch."""
    states = ProducerStates()
    follow(states, data(0, 1), ended(2), data(3, 4))
    follow(states, data(5, epoch=1))
    state = states.producers[1]
    assert (state.epoch, state.coordinator_epoch, state.transaction_start) == (1, 5, 3)
    assert follow(states, ended(6, epoch=2)) == [AbortedTransaction(1, 3, 6, 7)]
    state = states.producers[1]
    assert (state.epoch, state.last_sequence, state.last_offset) == (2, -1, -1)
