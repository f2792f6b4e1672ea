"""Encodes messages as bytes, in which records stay sends.

A message becomes a list of parts: bytes, and wherever a records field holds something that can be
sent, that, untouched. So a response of a hundred converted partitions holds nothing but their
headers until it is sent."""

import struct
from collections.abc import Callable, Iterable
from functools import cache
from itertools import groupby
from operator import attrgetter
from typing import Any, TypeAlias

from records.sends import Send

from .decoder import NUMBERS, UUID_SIZE, is_fixed, together
from .schemas import Field, Message, schema

Part: TypeAlias = "bytearray | Send"
Write: TypeAlias = Callable[["Parts", Any], None]
Step: TypeAlias = Callable[["Parts", dict[str, Any]], None]  # writes fields of a message's dict


class Parts:
    """A message as it is written: the last part is the one that bytes are added to."""

    __slots__ = ("bytes", "parts")

    def __init__(self) -> None:
        self.bytes = bytearray()
        self.parts: list[Part] = [self.bytes]

    def add_send(self, send: Send) -> None:
        self.bytes = bytearray()
        self.parts += (send, self.bytes)

    def uvarint(self, value: int) -> None:
        while value > 0x7F:
            self.bytes.append(value & 0x7F | 0x80)
            value >>= 7
        self.bytes.append(value)

    @property
    def size(self) -> int:
        """Bytes of all parts."""
        return sum(p.size if not isinstance(p, bytearray) else len(p) for p in self.parts)


def encode(name: str, version: int, message: Message) -> bytes:
    """A message without records that stream, as bytes."""
    parts = Parts()
    write(parts, name, version, message)
    (whole,) = parts.parts
    assert isinstance(whole, bytearray)
    return bytes(whole)


def write(parts: Parts, name: str, version: int, message: Message) -> None:
    """Adds a message of this name and version. ValueError: a field has no such value."""
    try:
        writer(name, version)(parts, message)
    except (struct.error, TypeError, AttributeError) as error:
        raise ValueError(f"{name} v{version}: {error}") from error


@cache
def writer(name: str, version: int) -> Write:
    """What writes a message of this name and version."""
    message = schema(name)
    return _structure(message.fields, version, version in message.flexible)


def _structure(fields: tuple[Field, ...], version: int, flexible: bool) -> Write:
    here = [field for field in fields if version in field.versions]
    plain = [field for field in here if version not in field.tagged]
    steps = [
        step
        for is_number, run in groupby(plain, is_fixed)
        for step in ([_numbers(list(run))] if is_number else _one_by_one(run, version, flexible))
    ]
    tagged = sorted((field for field in here if version in field.tagged), key=attrgetter("tag"))
    tags = [(f.tag, f.name, f.default, _field(f, version, flexible)) for f in tagged]

    def write_structure(parts: Parts, message: Message) -> None:
        values = message.__dict__
        for step in steps:
            step(parts, values)
        if flexible:
            _write_tags(parts, tags, values)

    return write_structure


def _numbers(fields: list[Field]) -> Step:
    """Writes numbers one after the other, by one call."""
    pack, defaults = together(fields).pack, [(field.name, field.default) for field in fields]

    def step(parts: Parts, values: dict[str, Any]) -> None:
        get = values.get
        parts.bytes += pack(*[get(name, default) for name, default in defaults])

    return step


def _one_by_one(fields: Iterable[Field], version: int, flexible: bool) -> list[Step]:
    return [_one(field.name, field.default, _field(field, version, flexible)) for field in fields]


def _one(name: str, default: Any, write_field: Write) -> Step:
    def step(parts: Parts, values: dict[str, Any]) -> None:
        write_field(parts, values.get(name, default))

    return step


def _write_tags(
    parts: Parts, tags: list[tuple[int, str, Any, Write]], values: dict[str, Any]
) -> None:
    present = [tag for tag in tags if values.get(tag[1], tag[2]) not in _same(tag[2])]
    parts.uvarint(len(present))
    for tag, name, _, write_field in present:
        inner = Parts()
        write_field(inner, values[name])
        parts.uvarint(tag)
        parts.uvarint(len(inner.bytes))
        parts.bytes += inner.bytes


def _same(default: Any) -> tuple[Any, ...]:
    """A default, and what is equal to it: no elements are given as a list or as a tuple."""
    return (default, []) if default == () else (default,)


def _field(field: Field, version: int, flexible: bool) -> Write:
    compact = flexible and not field.never_compact
    if field.is_array:
        return _array(_element(field, version, flexible), compact)
    if field.type == "struct" and version in field.nullable:
        return _nullable_structure(_element(field, version, flexible))
    return _element(field, version, flexible)


def _element(field: Field, version: int, flexible: bool) -> Write:
    compact = flexible and not field.never_compact
    match field.type:
        case "struct":
            return _structure(field.fields, version, flexible)
        case "string":
            return _string(compact)
        case "bytes" | "records":
            return _bytes(compact)
        case "bool":
            return lambda parts, value: parts.bytes.append(bool(value))
        case "uuid":
            return _uuid
        case kind:
            pack = NUMBERS[kind].pack

            def number(parts: Parts, value: int) -> None:
                parts.bytes += pack(value)

            return number


def _uuid(parts: Parts, value: bytes) -> None:
    if len(value) != UUID_SIZE:
        raise ValueError(f"a UUID of {len(value)} bytes")
    parts.bytes += value


def _nullable_structure(write_structure: Write) -> Write:
    def write_nullable(parts: Parts, value: Message | None) -> None:
        parts.bytes += b"\xff" if value is None else b"\x01"
        if value is not None:
            write_structure(parts, value)

    return write_nullable


def _length(kind: str, compact: bool) -> Callable[[Parts, int], None]:
    pack = NUMBERS[kind].pack

    def write_length(parts: Parts, length: int) -> None:
        if compact:
            parts.uvarint(length + 1)
        else:
            parts.bytes += pack(length)

    return write_length


def _string(compact: bool) -> Write:
    write_length = _length("int16", compact)

    def write_string(parts: Parts, value: str | None) -> None:
        encoded = b"" if value is None else value.encode()
        write_length(parts, -1 if value is None else len(encoded))
        parts.bytes += encoded

    return write_string


def _bytes(compact: bool) -> Write:
    write_length = _length("int32", compact)

    def write_bytes(parts: Parts, value: Any) -> None:
        if value is None:
            write_length(parts, -1)
        elif isinstance(value, bytes | bytearray | memoryview):
            write_length(parts, len(value))
            parts.bytes += value
        else:
            write_length(parts, value.size)
            parts.add_send(value)

    return write_bytes


def _array(write_element: Write, compact: bool) -> Write:
    write_length = _length("int32", compact)

    def write_array(parts: Parts, values: Any) -> None:
        write_length(parts, -1 if values is None else len(values))
        for value in values or ():
            write_element(parts, value)

    return write_array
