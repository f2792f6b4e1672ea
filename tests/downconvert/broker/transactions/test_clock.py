"""Transactions while the system's clock is set.

Not here: their timeout by a clock that goes on (test_coordinator.py)."""

import pytest

from downconvert.broker import Broker
from tests.downconvert.broker.transacting import NOW, TIMEOUT_MS, Producing, is_stable

DAY = 86_400.0


@pytest.mark.parametrize("shift", [-DAY, DAY])
def test_setting_the_clock_neither_keeps_a_transaction_open_nor_ends_it(
    broker: Broker, producer: Producing, shift: float
) -> None:
    producer.write([b"a"])
    broker.tick(NOW + 10)
    broker.time_of_day.shift = shift
    broker.tick(NOW + TIMEOUT_MS / 1000)
    assert not is_stable(broker)
    broker.tick(NOW + TIMEOUT_MS / 1000 + 11)
    assert is_stable(broker)
