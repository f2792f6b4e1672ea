"""Two brokers get the same requests: one answers usual requests without messages, the other never.

They must answer the same, and write the same."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from downconvert.access.rights import Access
from downconvert.broker import Broker, Exchange
from downconvert.broker.handlers.usual import Usual
from downconvert.protocol.errors import BadRequestError
from tests.downconvert.broker.asking import sent, someone
from tests.downconvert.broker.writable import writable_broker


class BothWays:
    """The brokers. answered: the number of requests that the first one answered as usual ones."""

    def __init__(self, usual: Broker, other: Broker) -> None:
        self.answered = 0
        self.brokers = usual, other
        usual.apis = {key: self._counted(api) for key, api in usual.apis.items()}
        other.apis = {key: replace(api, usual=None) for key, api in other.apis.items()}

    def _counted(self, api: Any) -> Any:
        if api.usual is None:
            return api
        answer = api.usual.answer

        def counting(*args: Any) -> bool:
            is_answered: bool = answer(*args)
            self.answered += is_answered
            return is_answered

        return replace(api, usual=Usual(api.usual.read, counting))

    def compare(self, data: bytes, now: float = 0.0, access: Access | None = None) -> bool:
        """Compares the responses to a request. Returns whether it was answered as a usual one."""
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
    for name in ("usual", "other"):
        (path / name).mkdir()
    with (
        writable_broker(path / "usual", *topics, partitions=2, **config) as usual,
        writable_broker(path / "other", *topics, partitions=2, **config) as other,
    ):
        yield BothWays(usual, other)


def logs(path: Path) -> dict[str, bytes]:
    """The bytes of all log files below a broker's directory."""
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*.log")}


def check_logs(path: Path) -> None:
    """Both brokers have written the same."""
    written = logs(path / "usual")
    assert any(written.values())
    assert written == logs(path / "other")
