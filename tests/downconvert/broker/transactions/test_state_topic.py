"""`__transaction_state` of a directory whose topic once had fewer partitions."""

from pathlib import Path

import pytest

from downconvert.broker import Broker, BrokerConfig
from downconvert.broker.internal_topic import partition_of
from downconvert.internal_topics.transaction import Transaction
from downconvert.internal_topics.transaction_records import write_key, write_value
from downconvert.storage import LogDir
from downconvert.storage.names import Kind, file_name
from records import Record, build

NAME = "__transaction_state"


def write_state(path: Path, index: int, name: str, epoch: int | None) -> None:
    """`epoch`: of the producer; None: a tombstone."""
    value = None
    if epoch is not None:
        one = Transaction(transactional_id=name, producer_id=7, epoch=epoch, timeout_ms=1000)
        value = write_value(one)
    directory = path / f"{NAME}-{index}"
    directory.mkdir(exist_ok=True)
    data = build([Record(0, 1, key=write_key(name), value=value)], magic=2)
    (directory / file_name(0, Kind.LOG)).write_bytes(data)


@pytest.mark.parametrize("stale", [3, None])
@pytest.mark.parametrize("name", ["a", "b", "c", "d"])
def test_the_state_in_an_ids_own_partition_counts(
    tmp_path: Path, name: str, stale: int | None
) -> None:
    """In whichever order the partitions are read."""
    own_index = partition_of(name, 2)
    write_state(tmp_path, own_index, name, 5)
    write_state(tmp_path, 1 - own_index, name, stale)
    with LogDir.open(tmp_path, writable=True) as logs:
        transactions = Broker(logs, BrokerConfig(is_writable=True)).transactions
        found = transactions.get(name)
    assert transactions.partitions_count == 2
    assert found is not None
    assert found.epoch == 5
