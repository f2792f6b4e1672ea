"""What connections cost a server that is a process of its own; at full size: bench.serving."""

from bench import serving_memory
from bench.serving_memory import CONSUMER_LIMIT, idle, stalled, uncompressed

CONSUMERS = 100
IDLE = 500
IDLE_LIMIT = 20_000  # bytes each: ten thousand take 200 MB


def test_stalled_consumers_and_idle_connections_take_little_memory() -> None:
    serving_memory.allow_files(IDLE)
    with uncompressed() as serving:
        assert idle(serving, IDLE).each <= IDLE_LIMIT
        assert stalled(serving, CONSUMERS).each <= CONSUMER_LIMIT
