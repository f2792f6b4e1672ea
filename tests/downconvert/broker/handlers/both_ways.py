"""Two brokers get the same requests: one has the fast paths, the other only the handlers.

They must answer the same, and write the same."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from shutil import copytree
from typing import Any

from downconvert.access.rights import Access
from downconvert.broker import Broker, Exchange
from downconvert.protocol.errors import BadRequestError
from tests.damage import spliced
from tests.downconvert.broker.asking import sent, someone
from tests.downconvert.broker.writable import writable_broker


class BothWays:
    """The brokers. answered: the number of requests that took a fast path."""

    def __init__(self, fast: Broker, other: Broker) -> None:
        self.answered = 0
        self.brokers = fast, other
        fast.apis = {key: self._counted(api) for key, api in fast.apis.items()}
        other.apis = {key: replace(api, fast_path=None) for key, api in other.apis.items()}

    def _counted(self, api: Any) -> Any:
        if api.fast_path is None:
            return api
        answer = api.fast_path.answer

        def counting(*args: Any) -> bool:
            is_answered: bool = answer(*args)
            self.answered += is_answered
            return is_answered

        return replace(api, fast_path=replace(api.fast_path, answer=counting))

    def compare(self, data: bytes, now: float = 0.0, access: Access | None = None) -> bool:
        """Compares the responses to a request. Returns whether it took a fast path."""
        before = self.answered
        found = [_outcome(broker, data, now, access) for broker in self.brokers]
        assert found[0] == found[1]
        return self.answered > before


def _outcome(broker: Broker, data: bytes, now: float, access: Access | None) -> tuple[Any, ...]:
    client = someone(access=access)
    try:
        exchange: Exchange = broker.handle(client, memoryview(data), now)
    except BadRequestError as error:
        return (str(error),)
    while not exchange.is_done:
        broker.tick(now)
        now += 1  # it may wait for a deadline
    response = None if exchange.send is None else sent(exchange)
    broker.finished(exchange, now)
    counted = exchange.request.name, exchange.request.size, exchange.throttle
    return response, exchange.errors, exchange.close_after_reply, exchange.why, counted


@contextmanager
def both_ways(path: Path, *topics: str, **config: Any) -> Iterator[BothWays]:
    """Both brokers have these topics, with the same ids."""
    (path / "fast").mkdir()
    with writable_broker(path / "fast", *topics, partitions=2, **config):
        pass
    copytree(path / "fast", path / "other")
    with (
        writable_broker(path / "fast", *topics, partitions=2, **config) as fast,
        writable_broker(path / "other", *topics, partitions=2, **config) as other,
    ):
        yield BothWays(fast, other)


def logs(path: Path) -> dict[str, bytes]:
    """The bytes of all log files below a broker's directory."""
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*.log")}


def check_logs(path: Path) -> None:
    """Both brokers have written the same."""
    written = logs(path / "fast")
    assert any(written.values())
    assert written == logs(path / "other")


def with_tags(data: bytes, random: Random) -> bytes:
    """A request with a tagged field that no version defines. In flexible versions, its last bytes
    are the numbers of tagged fields of its structures."""
    at = len(data) - random.randrange(1, 4)
    field = random.choice((b"\1\x64\0", b"\1\x64\2no", b"\2\x64\0\x65\1n"))
    return spliced(data, at, field, drop=1)
