"""The transaction index: Kafka's entries, Kafka's rules."""

from pathlib import Path

import pytest

from downconvert.storage import AbortedTransaction, CorruptIndexError
from downconvert.storage.disk.files import DISK
from downconvert.storage.indexes.transaction_index import ENTRY, TransactionIndex, read_transactions

ENTRIES = [
    AbortedTransaction(0, 0, 10, 11),
    AbortedTransaction(1, 5, 15, 13),
    AbortedTransaction(2, 18, 35, 25),
    AbortedTransaction(3, 32, 50, 40),
]


def filled(path: Path) -> TransactionIndex:
    index = TransactionIndex(path, 0, DISK)
    for entry in ENTRIES:
        index.append(entry)
    return index


def test_written_entries_are_read(tmp_path: Path) -> None:
    path = tmp_path / "0.txnindex"
    index = filled(path)
    index.sync()
    index.close()
    assert path.read_bytes() == b"".join(ENTRY.pack(0, *entry) for entry in ENTRIES)
    assert read_transactions(path, 0) == ENTRIES
    again = TransactionIndex(path, 0, DISK)
    again.append(AbortedTransaction(4, 60, 70, 71))
    assert len(read_transactions(path, 0)) == 5


def test_a_segment_without_aborted_transactions_has_no_file(tmp_path: Path) -> None:
    path = tmp_path / "0.txnindex"
    TransactionIndex(path, 0, DISK).close()
    assert not path.exists()
    assert read_transactions(path, 0) == []


def test_last_offsets_must_rise(tmp_path: Path) -> None:
    index = filled(tmp_path / "0.txnindex")
    for last in (50, 49):
        with pytest.raises(ValueError, match="after one at 50"):
            index.append(AbortedTransaction(9, 0, last, 0))


def test_the_first_batch_of_a_segment_may_be_a_marker(tmp_path: Path) -> None:
    path = tmp_path / "20.txnindex"
    index = TransactionIndex(path, 20, DISK)
    with pytest.raises(ValueError, match="after one at 19"):
        index.append(AbortedTransaction(1, 5, 19, 20))
    index.append(AbortedTransaction(1, 5, 20, 21))
    assert [entry.last_offset for entry in read_transactions(path, 20)] == [20]
    with pytest.raises(CorruptIndexError, match="do not rise"):
        read_transactions(path, 21)


@pytest.mark.parametrize(("offset", "left"), [(51, 4), (50, 3), (36, 3), (35, 2), (10, 0)])
def test_truncation_keeps_transactions_that_ended_earlier(
    tmp_path: Path, offset: int, left: int
) -> None:
    path = tmp_path / "0.txnindex"
    index = filled(path)
    index.truncate_to(offset)
    assert index.entries == ENTRIES[:left] == read_transactions(path, 0)
    index.append(AbortedTransaction(9, 0, 100, 0))
    assert len(read_transactions(path, 0)) == left + 1


def test_truncation_creates_no_file(tmp_path: Path) -> None:
    path = tmp_path / "0.txnindex"
    TransactionIndex(path, 0, DISK).truncate_to(0)
    assert not path.exists()


def test_impossible_entries_are_errors(tmp_path: Path) -> None:
    path = tmp_path / "0.txnindex"
    path.write_bytes(ENTRY.pack(1, *ENTRIES[0]))
    with pytest.raises(CorruptIndexError, match="version 1"):
        read_transactions(path, 0)
    path.write_bytes(ENTRY.pack(0, *ENTRIES[1]) + ENTRY.pack(0, *ENTRIES[0]))
    with pytest.raises(CorruptIndexError, match="do not rise"):
        read_transactions(path, 0)
    path.write_bytes(ENTRY.pack(0, *ENTRIES[0]))
    with pytest.raises(CorruptIndexError, match="do not rise"):
        read_transactions(path, 11)


def test_a_torn_last_entry_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "0.txnindex"
    path.write_bytes(ENTRY.pack(0, *ENTRIES[0]) + bytes(33))
    assert read_transactions(path, 0) == ENTRIES[:1]
