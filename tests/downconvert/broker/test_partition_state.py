"""A look at another process's log costs system calls, so a fetch may use an earlier one.

Not here: logs that this process writes (test_partition.py)."""

from pathlib import Path

import pytest

from downconvert.broker.partition import Partition
from downconvert.broker.partition_state import LOOK_AGE_MAX
from tests.downconvert.storage.logs import batch

from .fetching import broker_of, produce
from .writable import writable_broker

NOW = 0.0  # seconds


def end_at(partition: Partition, now: float, offset: int = 0) -> int:
    _, end, _ = partition.offsets(offset, now, stable=False)
    return end


@pytest.mark.parametrize(
    ("later", "offset", "expected"),
    [
        (0.0, 0, 3),
        (0.9 * LOOK_AGE_MAX, 2, 3),
        (LOOK_AGE_MAX, 0, 5),
        (0.0, 3, 5),  # at the end that was seen
        (-0.001, 0, 5),  # the clock was set back: the age is not known
        (-50.0, 0, 5),
    ],
)
def test_an_earlier_look_counts_below_its_end_while_it_is_young(
    tmp_path: Path, later: float, offset: int, expected: int
) -> None:
    with broker_of(tmp_path, {"events": {0: [batch(0, 1, 2)]}}) as broker:
        partition = broker.topics["events"].partitions[0]
        assert end_at(partition, NOW) == 3
        (segment,) = partition.log.segments
        with segment.path().open("ab") as file:
            file.write(batch(3, 4))
        assert end_at(partition, NOW + later, offset) == expected


def test_a_log_of_another_process_may_hold_what_it_held_at_the_last_look(tmp_path: Path) -> None:
    with broker_of(tmp_path, {"events": {0: [batch(0, 1, 2)]}}) as broker:
        partition = broker.topics["events"].partitions[0]
        assert not partition.may_hold(0)
        end_at(partition, NOW)
        assert [partition.may_hold(offset) for offset in (0, 2, 3)] == [True, True, False]


def test_a_log_of_this_process_needs_no_look(tmp_path: Path) -> None:
    with writable_broker(tmp_path, "events") as broker:
        partition = broker.topics["events"].partitions[0]
        assert not partition.may_hold(0)
        produce(broker, batch(0, 1))
        assert [partition.may_hold(offset) for offset in (0, 1, 2)] == [True, True, False]
