"""Mutants of requests of every kind and version, each of a seed and a number alone.

A mutant may be answered, wait, be answered with nothing, or end its connection. An exception that
is not the broker's own is a defect, and so is an answer whose length is not what it says.

Not here: how many are tried (test_hostile.py; by the million, bench/fuzz_requests.py)."""

from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, Final

from downconvert.broker import BadRequestError, Broker, BrokerConfig
from downconvert.broker.handlers.apis import APIS
from downconvert.broker.wire.schemas import ApiKey, Field, Message, schema
from downconvert.storage import LogDir, TopicPartition
from records import Codec, RecordsError
from tests.damage import mutated
from tests.downconvert.storage.logs import batch

from .asking import frame, someone

LENGTH_SIZE: Final = 4
NAMES: Final = ("t", "u", "", "g", "PLAIN", "range")
NUMBERS: Final = (0, 0, 0, 1, 1, 2, -1, 5, 100, 2**15 - 1)
BATCHES: Final = tuple(batch(0, 1, 2, codec=codec) for codec in Codec)
CONVERTED: Final = tuple(batch(0, 1, magic=magic) for magic in (0, 1))


@contextmanager
def hostile_broker(directory: Path, *, writable: bool = False) -> Iterator[Broker]:
    """One with a topic of two partitions, with records of every codec."""
    with LogDir.open(directory, writable=True) as log_dir:
        for partition in range(2):
            writer = log_dir.logs.create(TopicPartition("t", partition)).writer
            for number, codec in enumerate(Codec):
                writer.append(batch(2 * number, 2 * number + 1, codec=codec))
        yield Broker(log_dir, BrokerConfig(is_writable=writable))


def made_up(fields: tuple[Field, ...], version: int, random: Random) -> Message:
    """A message with something in every field."""
    return Message(
        **{
            field.name: _value(field, version, random)
            for field in fields
            if version in field.versions
        }
    )


def _value(field: Field, version: int, random: Random) -> Any:
    if field.is_array:
        if version in field.nullable and random.random() < 0.1:
            return None
        return [_element(field, version, random) for _ in range(random.choice((0, 1, 1, 2)))]
    if version in field.nullable and random.random() < 0.1:
        return None
    return _element(field, version, random)


def _element(field: Field, version: int, random: Random) -> Any:
    match field.type:
        case "struct":
            return made_up(field.fields, version, random)
        case "string":
            return random.choice(NAMES)
        case "records":
            return random.choice(BATCHES + CONVERTED)
        case "bytes":
            return random.choice((b"", b"\0a\0b", random.randbytes(20)))
        case "bool":
            return random.random() < 0.5
        case "uuid":
            return random.choice((bytes(16), random.randbytes(16)))
        case "int8":
            return random.choice((0, 1, -1))
        case "float64":
            return random.random()
        case "uint16" | "uint32":
            return random.choice((0, 1, 9092))
        case _:
            return random.choice(NUMBERS)


def request(random: Random) -> bytes:
    """A frame that is well formed, of some API and version."""
    api = random.choice(tuple(APIS))
    version = random.choice(APIS[api].versions)
    body = made_up(schema(f"{api.name}Request").fields, version, random)
    if api is ApiKey.Fetch:  # it need not wait
        body.max_wait_ms = random.choice((0, 0, 100))
    return frame(api, version, SimpleNamespace(**vars(body)))


def attempt(broker: Broker, seed: int, number: int, now: float) -> str:
    """Tries one; what became of it. Raises what no request may."""
    random = Random(f"{seed}/{number}")
    data = request(random)
    if random.random() < 0.8:
        data = mutated(data, random)
    try:
        exchange = broker.handle(someone(), memoryview(data), now)
        broker.tick(now)
        if not exchange.is_done:
            return "waits"
        if exchange.send is None:
            return "hangs up" if exchange.close_after_reply else "nothing"
        channel = BytesIO()
        while not exchange.send.completed:
            exchange.send.write_to(channel)
    except (BadRequestError, RecordsError) as error:
        return type(error).__name__
    written = channel.getvalue()
    assert int.from_bytes(written[:LENGTH_SIZE]) == len(written) - LENGTH_SIZE
    return "answered"
