"""Messages with anything in them, by their definitions; and the same messages in another's hands.

Not here: what is done with them."""

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pkgutil import walk_packages
from random import Random
from typing import Any

from kafka import protocol
from kafka.protocol.api_message import ApiMessage

from downconvert.protocol.schemas import ApiKey, Field, Message, schema

# The compact length of 126 is the last that takes one byte.
SIZES = (0, 1, 126, 127, 300)
INTEGERS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}


@cache
def versions() -> dict[str, range]:
    """The versions of every request and response."""
    names = (f"{api.name}{kind}" for api in ApiKey for kind in ("Request", "Response"))
    return {name: range(schema(name).newest + 1) for name in names}


def random_message(random: Random, name: str, version: int) -> Message:
    return _structure(random, schema(name).fields, version)


def _structure(random: Random, fields: tuple[Field, ...], version: int) -> Message:
    return Message(
        **{
            field.name: _value(random, field, version)
            for field in fields
            if version in field.versions and (version not in field.tagged or random.random() < 0.5)
        }
    )


def _value(random: Random, field: Field, version: int) -> Any:
    if version in field.nullable and random.random() < 0.2:
        return None
    if field.is_array:
        counts = (0, 1, 3) if field.type == "struct" else (0, 1, 3, 126, 127)
        return [_element(random, field, version) for _ in range(random.choice(counts))]
    return _element(random, field, version)


def _element(random: Random, field: Field, version: int) -> Any:
    match field.type:
        case "struct":
            return _structure(random, field.fields, version)
        case "string":
            letters = random.choice(("a", "aä€𝄞 "))
            return "".join(random.choices(letters, k=random.choice(SIZES)))
        case "bytes" | "records":
            return random.randbytes(random.choice(SIZES))
        case "bool":
            return random.random() < 0.5
        case "uuid":
            return random.randbytes(16)
        case "float64":
            return random.random()
        case "uint16" | "uint32" as kind:
            return random.getrandbits(int(kind[4:]))
        case kind:
            bits = INTEGERS[kind]
            return random.choice((0, -1, 1, random.getrandbits(bits) - (1 << (bits - 1))))


@cache
def other(name: str) -> Any:
    """kafka-python's class for a message."""
    for module in walk_packages(protocol.__path__, f"{protocol.__name__}."):
        if ".old" not in module.name:
            import_module(module.name)
    return next(one for one in _subclasses(ApiMessage) if one.__name__ == name)


def _subclasses(of: type[Any]) -> Iterator[type[Any]]:
    for one in of.__subclasses__():
        yield one
        yield from _subclasses(one)
