"""Connections cost a server, a process of its own, little memory; at full size: bench.serving."""

from typing import Final

from bench.servers.serving_memory import CONSUMER_LIMIT, allow_files, idle, stalled, uncompressed
from downconvert.broker.fetch.chunk_budget import LARGE_MAX

CONSUMERS: Final = 100
IDLE: Final = 500
IDLE_LIMIT: Final = 20_000  # bytes each: ten thousand take 200 MB


def test_stalled_consumers_and_idle_connections_take_little_memory() -> None:
    allow_files(IDLE)
    with uncompressed() as serving:
        assert idle(serving, IDLE).each <= IDLE_LIMIT
        with (
            stalled(serving, LARGE_MAX),  # the first ones take more, however many come behind them
            stalled(serving, CONSUMERS) as growth,
        ):
            assert growth.each <= CONSUMER_LIMIT
