"""Records as they are: in turns where there is nothing, and looked at cheaply."""

from pathlib import Path

import pytest

from downconvert.broker.reading import available
from downconvert.broker.wire.schemas import ApiKey
from tests.downconvert.storage.logs import batch

from .asking import begin
from .fetching import broker_of, fetched, records_of, request
from .test_reading_converted import MARKER, markers, of


@pytest.mark.parametrize("version", [4, 11])
def test_a_desert_is_gone_over_in_turns_for_new_clients_too(
    version: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("downconvert.broker.reading.BATCHES_A_TURN", 10)
    segments = {0: [markers(30)], 30: [markers(30, 30), batch(60)]}
    with broker_of(tmp_path, {"events": segments}) as broker:
        asked = request(broker, {"events": 5}, max_bytes=len(MARKER) * 15)
        exchange = begin(broker, ApiKey.Fetch, version, asked, now=1.0)
        turns = 1
        while not exchange.is_done:
            broker.tick(1.0 + turns)
            turns += 1
        assert [one.offset for one in records_of(fetched(exchange))] == [60]
    assert turns >= 2


def test_as_many_bytes_are_available_as_a_fetch_would_get(tmp_path: Path) -> None:
    one = batch(0)
    with broker_of(tmp_path, {"events": {0: [one, batch(1)]}}) as broker:
        partition = of(broker)
        assert available(partition, 0, 2, 1_000) == 2 * len(one)
        assert available(partition, 1, 2, 1_000) == len(one)
        assert available(partition, 0, 2, 10) == 10
        assert available(partition, 2, 2, 1_000) == 0
