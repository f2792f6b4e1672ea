"""A cluster that takes what Kafka 4 takes, without sockets: our own broker, with fewer versions.

Requests of a session and their responses are passed as bytes. So other code than the gateway's
reads what the gateway writes, and the other way round.

Not here: real clusters (test_kafka_4.py)."""

from collections.abc import Callable
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any, Final

from downconvert.broker import Broker, Client
from downconvert.broker.handlers.apis import Api
from downconvert.gateway.advertised import Advertised
from downconvert.gateway.config import GatewayConfig
from downconvert.gateway.session import headers
from downconvert.gateway.session.census import ClientCensus
from downconvert.gateway.session.exchanges import (
    ASK_API_VERSIONS,
    Ask,
    Forward,
    Pause,
    Reply,
    Response,
    Turn,
    Whole,
)
from downconvert.gateway.session.session import Session
from downconvert.gateway.session.shared import Shared
from downconvert.gateway.session.spool import Spool
from downconvert.gateway.topology import Address, Ports, Topology
from downconvert.protocol.schemas import ApiKey, Message
from tests.downconvert.broker.asking import CORRELATION_ID, frame, parsed, sent

# The first versions that Kafka 4.4 serves, where they are not 0.
FLOORS: Final = {
    ApiKey.Fetch: 4,
    ApiKey.ListOffsets: 1,
    ApiKey.OffsetCommit: 2,
    ApiKey.OffsetFetch: 1,
    ApiKey.CreateTopics: 2,
    ApiKey.DeleteTopics: 1,
    ApiKey.DescribeConfigs: 1,
}
FIRST_PORT: Final = 20_000
FOREVER: Final = 1e9  # seconds, more than any request may wait
HOST: Final = "gateway.test"
LENGTH_SIZE: Final = 4


def modern(broker: Broker) -> Broker:
    """The broker, which forgets what Kafka 4 dropped."""
    broker.apis = {
        key: Api(api.handler, range(FLOORS.get(key, 0), api.versions.stop))
        for key, api in broker.apis.items()
    }
    return broker


def append(broker: Broker, *batches: bytes, partition: int = 0) -> None:
    """Appends batches to topic `t`."""
    found = broker.topics.partition("t", partition)
    assert found is not None
    for one in batches:
        found.log.writer.append(one)


@dataclass
class Through:
    """A client that reaches a cluster through a session of a gateway."""

    broker: Broker
    config: GatewayConfig = field(
        default_factory=lambda: GatewayConfig(bootstrap=(Address("cluster.test", 9092),))
    )
    tamper: Callable[[Ask, bytes], bytes] = lambda _ask, response: response

    def __post_init__(self) -> None:
        topology = Topology(self.config.bootstrap, Ports(FIRST_PORT, self.config.node_ports))
        self.shared = Shared(self.config, topology, ClientCensus())
        self.session = Session(self.shared, "10.0.0.7", Advertised(HOST))
        self.asked: list[Ask] = []
        self.now = 1_000.0
        self._client = Client(2, "10.0.0.1", host="cluster.test", port=9092)

    def ask(self, api: ApiKey, version: int, body: Message) -> Message:
        """The response that the client reads."""
        reply = self.reply(frame(api, version, body))
        match reply:
            case Response(send):
                channel = BytesIO()
                while not send.completed:
                    send.write_to(channel)
                self.session.sent(send)
                return parsed(api, version, channel.getvalue())
            case Forward():
                return parsed(api, version, self._pass(frame(api, version, body)))
        raise AssertionError(reply)

    def passes(self, request: bytes, *, expects_response: bool = True) -> bool:
        """Whether it is forwarded as it is."""
        header = headers.parse(memoryview(request))
        return self.reply(request) == Forward(header, expects_response)

    def reply(self, request: bytes) -> Reply:
        """The fate of a request."""
        steps = self.session.exchange(memoryview(request), len(request), self.now)
        result: Any = None
        while True:
            try:
                asked = steps.send(result)
            except StopIteration as end:
                reply: Reply = end.value
                return reply
            if isinstance(asked, Pause):
                self.now += asked.seconds
                result = None
            elif isinstance(asked, Turn):
                result = None
            elif isinstance(asked, Whole):
                result = memoryview(request)
            else:
                self.asked.append(asked)
                result = self.response(asked, request)

    def response(self, asked: Ask, request: bytes) -> Message:
        own = request if asked.body is None else asked.frame(CORRELATION_ID, "gateway")
        if not asked.expects_response:
            self._handle(own)
            return Message()
        response = self.tamper(asked, self._pass(own))[LENGTH_SIZE:]
        spool = Spool(len(response))
        spool.write(memoryview(response))
        return asked.response(spool, CORRELATION_ID)

    def _pass(self, request: bytes) -> bytes:
        return sent(self._handle(request))

    def _handle(self, request: bytes) -> Any:
        exchange = self.broker.handle(self._client, memoryview(request), self.now)
        if not exchange.is_done:
            self.broker.tick(self.now + FOREVER)
        return exchange


def before_login(broker: Broker, config: GatewayConfig) -> Through:
    """A client that has not logged in. The gateway knows what the cluster serves."""
    found = Through(broker, config)
    found.shared.topology.api_versions = found.response(ASK_API_VERSIONS, b"")
    return found
