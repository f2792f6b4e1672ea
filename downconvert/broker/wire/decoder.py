"""Reads messages from untrusted bytes.

One cursor, which only moves forward, by `take`, and never past the end. A length or a count that
the bytes claim allocates nothing: elements are read one by one, and each takes at least one byte.
Numbers that follow one another are read at once. Whatever is wrong is a BadRequestError that says
what and where."""

from collections.abc import Callable, Iterable
from functools import cache
from itertools import groupby
from struct import Struct
from typing import Any, Final, TypeAlias

from downconvert.broker.errors import BadRequestError
from downconvert.internal_topics import cursor

from .schemas import Field, Message, schema

Read: TypeAlias = Callable[["Cursor"], Any]
Step: TypeAlias = Callable[["Cursor", dict[str, Any]], None]  # reads fields into a message's dict

NUMBERS: Final = {
    "int8": Struct(">b"),
    "int16": Struct(">h"),
    "uint16": Struct(">H"),
    "int32": Struct(">i"),
    "uint32": Struct(">I"),
    "int64": Struct(">q"),
    "float64": Struct(">d"),
}
UUID_SIZE: Final = 16


class Cursor(cursor.Cursor):
    """A position in a message."""

    error = BadRequestError

    __slots__ = ()

    def records(self, start: int, size: int) -> Any:
        """What a records field becomes: a view of its bytes."""
        return self.data[start : start + size]


def decode(name: str, version: int, data: memoryview) -> Message:
    """A whole message, as `FetchRequest`. Byte strings and records are views of `data`.

    Bytes after its end are ignored, as in Kafka: librdkafka up to 1.0 sends four after its
    ApiVersions request."""
    message: Message = reader(name, version)(Cursor(data))
    return message


@cache
def reader(name: str, version: int) -> Read:
    """What reads a message of this name and version."""
    message = schema(name)
    return _structure(message.fields, version, version in message.flexible)


def _structure(fields: tuple[Field, ...], version: int, flexible: bool) -> Read:
    here = [field for field in fields if version in field.versions]
    absent = {field.name: field.default for field in fields if field not in here}
    plain = [field for field in here if version not in field.tagged]
    steps = [
        step
        for is_number, run in groupby(plain, is_fixed)
        for step in ([_numbers(list(run))] if is_number else _one_by_one(run, version, flexible))
    ]
    tagged = {
        field.tag: (field.name, _field(field, version, flexible))
        for field in here
        if version in field.tagged
    }
    absent |= {field.name: field.default for field in here if field.tag in tagged}

    def read(cursor: Cursor) -> Message:
        message = Message()
        values = message.__dict__
        values.update(absent)
        for step in steps:
            step(cursor, values)
        if flexible:
            _read_tags(cursor, tagged, values)
        return message

    return read


def is_fixed(field: Field) -> bool:
    """Whether a field is one number, which takes as many bytes in every version."""
    return field.type in NUMBERS and not field.is_array


def together(fields: Iterable[Field]) -> Struct:
    """Numbers one after the other."""
    return Struct(">" + "".join(NUMBERS[field.type].format[1:] for field in fields))


def _numbers(fields: list[Field]) -> Step:
    """Reads numbers one after the other, by one call."""
    names, whole = [field.name for field in fields], together(fields)
    one_by_one = [(field.name, _number(NUMBERS[field.type])) for field in fields]
    size, unpack = whole.size, whole.unpack_from

    def step(cursor: Cursor, values: dict[str, Any]) -> None:
        at = cursor.position
        if size > len(cursor.data) - at:
            for name, read in one_by_one:  # to the one that is cut off, which says so
                values[name] = read(cursor)
        cursor.position = at + size
        values.update(zip(names, unpack(cursor.data, at), strict=True))

    return step


def _one_by_one(fields: Iterable[Field], version: int, flexible: bool) -> list[Step]:
    return [_one(field.name, _field(field, version, flexible)) for field in fields]


def _one(name: str, read: Read) -> Step:
    def step(cursor: Cursor, values: dict[str, Any]) -> None:
        values[name] = read(cursor)

    return step


def _read_tags(cursor: Cursor, tagged: dict[int, tuple[str, Read]], values: dict[str, Any]) -> None:
    before = -1
    for _ in range(cursor.uvarint()):
        tag, size = cursor.uvarint(), cursor.uvarint()
        if tag <= before:
            raise BadRequestError(f"tag {tag} after tag {before} at {cursor.position}")
        before = tag
        start = cursor.take(size)
        if tag in tagged:
            name, read = tagged[tag]
            inner = Cursor(cursor.data[: cursor.position], start)
            values[name] = read(inner)
            if inner.remaining:
                raise BadRequestError(f"{inner.remaining} bytes too many in tag {tag} at {start}")


def _field(field: Field, version: int, flexible: bool) -> Read:
    nullable = version in field.nullable
    compact = flexible and not field.never_compact
    if field.is_array:
        return _array(field, _element(field, version, flexible, False), nullable, compact)
    return _element(field, version, flexible, nullable)


def _element(field: Field, version: int, flexible: bool, nullable: bool) -> Read:
    compact = flexible and not field.never_compact
    match field.type:
        case "struct":
            read = _structure(field.fields, version, flexible)
            return _nullable_structure(read) if nullable else read
        case "string":
            return _string(field.name, nullable, compact)
        case "bytes":
            return _bytes(field.name, nullable, compact)
        case "records":
            return _records(field.name, nullable, compact)
        case "bool":
            return lambda cursor: cursor.data[cursor.take(1)] != 0
        case "uuid":
            return _uuid
        case kind:
            return _number(NUMBERS[kind])


def _number(kind: Struct) -> Read:
    size, unpack = kind.size, kind.unpack_from

    def read(cursor: Cursor) -> Any:
        return unpack(cursor.data, cursor.take(size))[0]

    return read


def _uuid(cursor: Cursor) -> bytes:
    start = cursor.take(UUID_SIZE)
    return bytes(cursor.data[start : start + UUID_SIZE])


def _nullable_structure(read: Read) -> Read:
    presence = _number(NUMBERS["int8"])
    return lambda cursor: None if presence(cursor) < 0 else read(cursor)


def _length(name: str, kind: str, nullable: bool, compact: bool) -> Read:
    """Reads the length of something; -1 for null."""
    classic = _number(NUMBERS[kind])

    def read(cursor: Cursor) -> int:
        length: int = cursor.uvarint() - 1 if compact else classic(cursor)
        if length < -1 or (length < 0 and not nullable):
            raise BadRequestError(f"{name} before {cursor.position} has a length of {length}")
        return length

    return read


def _string(name: str, nullable: bool, compact: bool) -> Read:
    length_of = _length(name, "int16", nullable, compact)

    def read(cursor: Cursor) -> str | None:
        length = length_of(cursor)
        if length < 0:
            return None
        return cursor.text(length, name)

    return read


def _bytes(name: str, nullable: bool, compact: bool) -> Read:
    length_of = _length(name, "int32", nullable, compact)

    def read(cursor: Cursor) -> memoryview | None:
        length = length_of(cursor)
        if length < 0:
            return None
        start = cursor.take(length)
        return cursor.data[start : start + length]

    return read


def _records(name: str, nullable: bool, compact: bool) -> Read:
    length_of = _length(name, "int32", nullable, compact)

    def read(cursor: Cursor) -> Any:
        length = length_of(cursor)
        return None if length < 0 else cursor.records(cursor.take(length), length)

    return read


def _array(field: Field, element: Read, nullable: bool, compact: bool) -> Read:
    length_of = _length(field.name, "int32", nullable, compact)

    def read(cursor: Cursor) -> list[Any] | None:
        length = length_of(cursor)
        if length < 0:
            return None
        if length > cursor.remaining:  # each element takes at least one byte
            raise BadRequestError(
                f"{field.name} before {cursor.position} has {length} elements in "
                f"{cursor.remaining} bytes"
            )
        return [element(cursor) for _ in range(length)]

    return read
