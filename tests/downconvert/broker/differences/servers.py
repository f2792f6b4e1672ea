"""Kafka 3.9.1 and `serve --writable` side by side, with connections to both.

A request of a client goes to both servers at once. One that waits for others, as a group's members
do, leaves its client waiting; it is used again when both have answered."""

import select
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from downconvert.broker import Broker, BrokerConfig
from downconvert.broker.server import Server
from downconvert.protocol.errors import BadRequestError
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.storage import LogDir
from tests.downconvert.broker.asking import parsed
from tests.downconvert.broker.talking import Talk
from tests.downconvert.storage.logs import UNSYNCED
from tests.kafka_server import running

from .identities import KAFKA, OURS, SIDES

Address = tuple[str, int]
PROPERTIES: Final = {
    "log.retention.check.interval.ms": "86400000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "86400000",
    "log.cleaner.enable": "false",
}
PATIENCE: Final = 20.0  # seconds for an answer that has to come
MOMENT: Final = 0.15  # in which an answer comes that does not wait for another client
SETTLE: Final = 10.0


class Pair:
    """One client of both servers."""

    def __init__(self, addresses: tuple[Address, Address]) -> None:
        self._addresses = addresses
        self._talks = [Talk(address, seconds=PATIENCE) for address in addresses]
        self._heard: list[bytes | None] = [None, None]
        self.asked: tuple[ApiKey, int, Message] | None = None
        self._last: tuple[ApiKey, int, Message] | None = None

    def close(self) -> None:
        for talk in self._talks:
            talk.socket.close()

    def reconnect(self) -> None:
        """Begins again, where a server has ended the connection."""
        self.close()
        self._talks = [Talk(address, seconds=PATIENCE) for address in self._addresses]

    def send(self, api: ApiKey, version: int, body: Message, bodies: list[Any]) -> None:
        self.asked, self._heard = (api, version, body), [None, None]
        for talk, one in zip(self._talks, bodies, strict=True):
            talk.send(api, version, one)

    def send_again(self, body: Any) -> None:
        """To Kafka only; the other answer is the one that came before."""
        assert self._last is not None
        api, version, _ = self.asked = self._last
        self._heard[KAFKA] = None
        self._talks[KAFKA].send(api, version, body)

    def hear(self, seconds: float) -> list[bool]:
        """Which servers have answered, or ended the connection, within that time."""
        until = time.monotonic() + seconds
        while waiting := [side for side in SIDES if self._heard[side] is None]:
            sockets = [self._talks[side].socket for side in waiting]
            ready, _, _ = select.select(sockets, [], [], max(0.0, until - time.monotonic()))
            if not ready:
                break
            for side in waiting:
                if self._talks[side].socket in ready:
                    try:
                        self._heard[side] = self._talks[side].receive()
                    except (AssertionError, OSError):
                        self._heard[side] = b""
        return [heard is not None for heard in self._heard]

    def answers(self) -> list[Message | None]:
        """Both answers; None of a server that ended the connection."""
        assert self.asked is not None
        api, version, _ = self._last = self.asked
        self.asked = None
        return [_read(api, version, heard) if heard else None for heard in self._heard]


def _read(api: ApiKey, version: int, heard: bytes) -> Message:
    try:
        return parsed(api, version, heard)
    except BadRequestError as error:
        return Message(unreadable=str(error))


class Servers:
    """Both servers, and what is asked of them beside the operations."""

    def __init__(self, addresses: tuple[Address, Address]) -> None:
        self.addresses = addresses
        self._talks = [Talk(address, seconds=PATIENCE) for address in addresses]

    def ask(self, side: int, api: ApiKey, version: int, body: Any) -> Message:
        return self._talks[side].ask(api, version, body)

    def versions(self, side: int) -> dict[int, range]:
        answer = self.ask(side, ApiKey.ApiVersions, 2, Message())
        return {one.api_key: range(one.min_version, one.max_version + 1) for one in answer.api_keys}

    def close(self) -> None:
        for talk in self._talks:
            talk.socket.close()

    def wake(self) -> None:
        """Kafka has neither groups nor transactions before it is asked where they are."""
        for kind in (0, 1):
            body = Message(key="warm", key_type=kind)
            self.until(partial(self._is_told, ApiKey.FindCoordinator, 2, body))
        asked = Message(group_id="warm", topics=[])
        self.until(lambda: self.ask(KAFKA, ApiKey.OffsetFetch, 5, asked).error_code == 0)
        producer = Message(transactional_id="warm", transaction_timeout_ms=1000)
        self.until(lambda: self.ask(KAFKA, ApiKey.InitProducerId, 1, producer).error_code == 0)
        self.ask(OURS, ApiKey.InitProducerId, 1, producer)

    def _is_told(self, api: ApiKey, version: int, body: Message) -> bool:
        return all(self.ask(side, api, version, body).error_code == 0 for side in SIDES)

    def until(self, holds: Callable[[], bool]) -> bool:
        """Whether it holds before long."""
        deadline = time.monotonic() + SETTLE
        while not holds():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.01)
        return True


@contextmanager
def side_by_side() -> Iterator[Servers]:
    config = BrokerConfig(
        is_writable=True, group_initial_rebalance_delay_ms=0, offsets_topic_num_partitions=1
    )
    with (
        TemporaryDirectory(prefix="differences-") as directory,
        running(properties=PROPERTIES) as kafka,
        LogDir.open(Path(directory), writable=True, files=UNSYNCED) as log_dir,
        Server(Broker(log_dir, config)) as server,
    ):
        servers = Servers((("127.0.0.1", kafka.ports[0]), server.address))
        try:
            servers.wake()
            yield servers
        finally:
            servers.close()
