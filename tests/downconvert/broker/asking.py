"""Asks a broker without sockets: a request as bytes in, the response as bytes out.

Not here: real clients over real sockets, for which there is a server."""

from io import BytesIO
from types import SimpleNamespace
from typing import Any

from downconvert.broker import Broker, Client, Exchange, Owner
from downconvert.protocol.decoder import Cursor, decode, reader
from downconvert.protocol.encoder import encode
from downconvert.protocol.schemas import ApiKey, Message, is_flexible

CORRELATION_ID = 7
LENGTH_SIZE = 4
TURNS = 0.01  # seconds: who waits for longer than that does not work, but wait


def someone(address: str = "127.0.0.1", **fields: Any) -> Client:
    """A client of its own."""
    return Client(1, address, **fields)


def frame(
    api: ApiKey, version: int, body: SimpleNamespace, client_id: str | None = "test"
) -> bytes:
    """A request's bytes, without their length."""
    header = Message(
        request_api_key=api,
        request_api_version=version,
        correlation_id=CORRELATION_ID,
        client_id=client_id,
    )
    flexible = 2 if is_flexible(api, version) else 1
    start = encode("RequestHeader", flexible, header)
    return start + encode(f"{api.name}Request", version, Message(**vars(body)))


def begin(
    broker: Broker,
    api: ApiKey,
    version: int,
    body: SimpleNamespace,
    *,
    client: Client | None = None,
    now: float = 0.0,
    owner: Owner | None = None,
) -> Exchange:
    """The exchange, which may be done or wait."""
    data = memoryview(frame(api, version, body))
    return broker.handle(client or someone(), data, now, owner=owner)


def sent(exchange: Exchange) -> bytes:
    """Everything that a response writes."""
    assert exchange.is_done, f"{exchange.request.api.name} still waits"
    if exchange.defect is not None:
        raise exchange.defect
    assert exchange.send is not None, f"{exchange.request.api.name} answers nothing"
    channel = BytesIO()
    while not exchange.send.completed:
        exchange.send.write_to(channel)
    return channel.getvalue()


def response_of(exchange: Exchange, version: int | None = None) -> Message:
    """The response, its bytes read again; in another version than asked for where that is given."""
    return parsed(exchange.request.api, exchange.request.version, sent(exchange), version)


def parsed(api: ApiKey, asked: int, response: bytes, version: int | None = None) -> Message:
    """A response with its length, to a request of version `asked`."""
    version = asked if version is None else version
    assert int.from_bytes(response[:LENGTH_SIZE]) == len(response) - LENGTH_SIZE
    data = memoryview(response)[LENGTH_SIZE:]
    cursor = Cursor(data)
    flexible = api is not ApiKey.ApiVersions and is_flexible(api, version)
    header = reader("ResponseHeader", int(flexible))(cursor)
    assert header.correlation_id == CORRELATION_ID
    return decode(f"{api.name}Response", version, data[cursor.position :])


def ask(
    broker: Broker,
    api: ApiKey,
    version: int,
    body: SimpleNamespace,
    *,
    client: Client | None = None,
    now: float = 0.0,
) -> Message:
    """Asks, and gives the response; a request that would wait is an AssertionError.

    One that is worked on in turns gets them."""
    exchange = begin(broker, api, version, body, client=client, now=now)
    while not exchange.is_done and (turn := broker.tick(now)) is not None and turn < now + TURNS:
        now = turn
    return response_of(exchange)


def value(broker: Broker, name: str, **labels: str) -> float:
    """The value of a metric; 0 if there is none yet."""
    return broker.metrics.registry.get_sample_value(f"downconvert_broker_{name}", labels) or 0.0
