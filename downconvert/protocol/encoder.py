"""Encodes messages as bytes, except records: these stay sends.

A message becomes a list of parts: bytes, and the unchanged sends of records fields. So a response
of a hundred converted partitions holds no converted records before it is sent.

A message's writer is one function, generated from its definition (source.py)."""

import struct
from collections.abc import Callable
from functools import cache, partial
from itertools import groupby
from operator import attrgetter
from typing import Any, Final, NoReturn, TypeAlias

from records.files.sends import Send

from .decoder import NUMBERS, ONE_BYTE_MAX, UUID_SIZE, is_fixed, together
from .schemas import Field, Message, schema
from .source import Source

Part: TypeAlias = "bytearray | Send"
Write: TypeAlias = Callable[["Parts", Any], None]
NULL: Final = {kind: NUMBERS[kind].pack(-1) for kind in ("int8", "int16", "int32")}
UNWRITABLE: Final = (struct.error, TypeError, AttributeError)  # raised for values of wrong types


class Parts:
    """A message while it is written. Bytes are added to the last part. `before`: the number of
    bytes in all other parts."""

    __slots__ = ("before", "bytes", "parts")

    def __init__(self) -> None:
        self.bytes = bytearray()
        self.parts: list[Part] = [self.bytes]
        self.before = 0

    def add_send(self, send: Send) -> None:
        self.before += len(self.bytes) + send.size
        self.bytes = bytearray()
        self.parts += (send, self.bytes)

    def uvarint(self, value: int) -> None:
        while value > 0x7F:
            self.bytes.append(value & 0x7F | 0x80)
            value >>= 7
        self.bytes.append(value)


def encode(name: str, version: int, message: Message) -> bytes:
    """Encodes a message without sends as bytes."""
    parts = Parts()
    write(parts, name, version, message)
    (whole,) = parts.parts
    assert isinstance(whole, bytearray)
    return bytes(whole)


def write(parts: Parts, name: str, version: int, message: Message) -> None:
    """Adds a message of this name and version. Raises ValueError for a value that a field cannot
    have."""
    writer(name, version)(parts, message)


@cache
def writer(name: str, version: int) -> Write:
    """Returns the function that writes a message of this name and version. It raises as `write`."""
    message = schema(name)
    flexible = version in message.flexible

    def refuse(error: Exception) -> NoReturn:
        raise ValueError(f"{name} v{version}: {error}") from error

    def add(code: Source) -> None:
        with code.block("try"):
            _structure(code, "value", message.fields, version, flexible)
        with code.block(f"except {code.constant(UNWRITABLE)} as error"):
            code.line(f"{code.constant(refuse)}(error)")

    return _compiled(add)


# --- generating a writer: each function adds the lines that write the value of an expression


def _compiled(add: Callable[[Source], None]) -> Write:
    code = Source()
    code.line("out = parts.bytes")
    add(code)
    write: Write = code.compiled("parts, value")
    return write


def _structure(
    code: Source, value: str, fields: tuple[Field, ...], version: int, flexible: bool
) -> None:
    here = [field for field in fields if version in field.versions]
    tagged = [field for field in here if version in field.tagged]
    get = code.variable()
    code.line(f"{get} = {value}.__dict__.get")
    for is_number, run in groupby((field for field in here if field not in tagged), is_fixed):
        if is_number:
            numbers = list(run)
            values = ", ".join(_got(code, get, field) for field in numbers)
            code.line(f"out += {code.constant(together(numbers).pack)}({values})")
            continue
        for field in run:
            variable = code.variable()
            code.line(f"{variable} = {_got(code, get, field)}")
            _field(code, variable, field, version, flexible)
    if tagged:  # only flexible versions have such fields
        tags = code.constant(_tags_of(tagged, version))
        code.line(f"{code.constant(_write_tags)}(parts, {tags}, {value}.__dict__)")
    elif flexible:
        code.line("out.append(0)")


def _got(code: Source, get: str, field: Field) -> str:
    return f"{get}({field.name!r}, {code.constant(field.default)})"


def _field(code: Source, value: str, field: Field, version: int, flexible: bool) -> None:
    if field.is_array:
        _array(code, value, field, version, flexible)
    elif field.type == "struct" and version in field.nullable:
        with code.block(f"if {value} is None"):
            code.line(f"out += {NULL['int8']!r}")
        with code.block("else"):
            code.line("out.append(1)")
            _structure(code, value, field.fields, version, flexible)
    else:
        _element(code, value, field, version, flexible)


def _element(code: Source, value: str, field: Field, version: int, flexible: bool) -> None:
    compact = flexible and not field.never_compact
    match field.type:
        case "struct":
            _structure(code, value, field.fields, version, flexible)
        case "string":
            _nullable(code, value, "int16", compact)
            with code.block("else"):
                code.line(f"{value} = {value}.encode()")
                _length(code, f"len({value})", "int16", compact)
                code.line(f"out += {value}")
        case "bytes" | "records":
            _nullable(code, value, "int32", compact)
            with code.block(f"elif isinstance({value}, bytes | bytearray | memoryview)"):
                _length(code, f"len({value})", "int32", compact)
                code.line(f"out += {value}")
            with code.block("else"):
                _length(code, f"{value}.size", "int32", compact)
                code.line(f"parts.add_send({value})")
                code.line("out = parts.bytes")
        case "bool":
            code.line(f"out.append(bool({value}))")
        case "uuid":
            code.line(f"out += {code.constant(_uuid)}({value})")
        case kind:
            code.line(f"out += {code.constant(NUMBERS[kind].pack)}({value})")


def _nullable(code: Source, value: str, kind: str, compact: bool) -> None:
    """Adds the two cases of a nullable field: null, and a value with its length."""
    with code.block(f"if {value} is None"):
        code.line("out.append(0)" if compact else f"out += {NULL[kind]!r}")


def _length(code: Source, length: str, kind: str, compact: bool) -> None:
    if not compact:
        code.line(f"out += {code.constant(NUMBERS[kind].pack)}({length})")
        return
    number = code.variable()
    code.line(f"{number} = {length} + 1")
    with code.block(f"if {number} > {ONE_BYTE_MAX}"):
        code.line(f"parts.uvarint({number})")
    with code.block("else"):
        code.line(f"out.append({number})")


def _array(code: Source, values: str, field: Field, version: int, flexible: bool) -> None:
    compact = flexible and not field.never_compact
    _nullable(code, values, "int32", compact)
    with code.block("else"):
        _length(code, f"len({values})", "int32", compact)
        one = code.variable()
        with code.block(f"for {one} in {values}"):
            _element(code, one, field, version, flexible)


Tag: TypeAlias = tuple[int, str, Any, Write]  # its number, the field's name and default


def _tags_of(fields: list[Field], version: int) -> list[Tag]:
    return [
        (
            field.tag,
            field.name,
            field.default,
            _compiled(partial(_field, value="value", field=field, version=version, flexible=True)),
        )
        for field in sorted(fields, key=attrgetter("tag"))
    ]


# --- functions that writers call


def _write_tags(parts: Parts, tags: list[Tag], values: dict[str, Any]) -> None:
    present = [tag for tag in tags if values.get(tag[1], tag[2]) not in _same(tag[2])]
    parts.uvarint(len(present))
    for tag, name, _, write_field in present:
        inner = Parts()
        write_field(inner, values[name])
        parts.uvarint(tag)
        parts.uvarint(len(inner.bytes))
        parts.bytes += inner.bytes


def _same(default: Any) -> tuple[Any, ...]:
    """The values that equal a default. An empty array may be a list or a tuple."""
    return (default, []) if default == () else (default,)


def _uuid(value: bytes) -> bytes:
    if len(value) != UUID_SIZE:
        raise ValueError(f"a UUID of {len(value)} bytes")
    return value
