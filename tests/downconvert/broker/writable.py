"""A broker that may be written to, over a directory of a test."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from downconvert.broker import Broker, BrokerConfig
from downconvert.storage import LogConfig, LogDir
from tests.downconvert.storage.logs import UNSYNCED


@contextmanager
def writable_broker(
    path: Path,
    *topics: str,
    partitions: int = 1,
    log_config: LogConfig | None = None,
    **config: Any,
) -> Iterator[Broker]:
    """With these topics, and with what BrokerConfig says otherwise. Its logs are never flushed."""
    with LogDir.open(path, writable=True, config=log_config, files=UNSYNCED) as log_dir:
        broker = Broker(log_dir, BrokerConfig(is_writable=True, **config))
        for topic in topics:
            if topic not in broker.topics:
                broker.topics.create(topic, partitions, {}, 0)
        yield broker
