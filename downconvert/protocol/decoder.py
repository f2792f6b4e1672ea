"""Reads messages from untrusted bytes.

The position only moves forward, and never past the end. A claimed length or count allocates
nothing: elements are read one by one, and each takes at least one byte. The number of elements in a
message of a client is limited, because an element of two bytes takes hundreds in memory. A string
has at most 32,767 bytes, as in Kafka. Consecutive numbers are read at once. Any error is a
BadRequestError with the reason and the position.

A message's reader is one function, generated from its definition (source.py)."""

import struct
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from struct import Struct
from typing import Any, Final, TypeAlias

from downconvert.internal_topics import cursor

from . import malformed
from .errors import BadRequestError
from .schemas import Field, Message, schema
from .source import Source

Read: TypeAlias = Callable[["Cursor"], Any]
# Reads a number of several bytes. Returns it and the position after it.
ReadLong: TypeAlias = Callable[[memoryview, int], tuple[int, int]]

NUMBERS: Final = {
    "int8": Struct(">b"),
    "int16": Struct(">h"),
    "uint16": Struct(">H"),
    "int32": Struct(">i"),
    "uint32": Struct(">I"),
    "int64": Struct(">q"),
    "float64": Struct(">d"),
}
LENGTHS: Final = {"string": "int16", "bytes": "int32", "records": "int32"}  # unless compact
UUID_SIZE: Final = 16
# Elements of all arrays of a request, and its tagged fields. A fetch may name 200,000 partitions,
# the limit of all sessions together, in up to 50,000 topics.
ELEMENTS_MAX: Final = 250_000
ONE_BYTE_MAX: Final = 0x7F  # of a variable-length number
TEXT_MAX: Final = 0x7FFF  # bytes of a string: the longest in a version with fixed-size lengths


class Cursor(cursor.Cursor):
    """A position in a message."""

    error = BadRequestError

    __slots__ = ("elements",)
    elements: int  # of all arrays, once the message is read

    def records(self, start: int, size: int) -> Any:
        """The value of a records field: a view of its bytes."""
        return self.data[start : start + size]


def decode(name: str, version: int, data: memoryview) -> Message:
    """Decodes a whole message, like `FetchRequest`. Byte strings and records are views of `data`.

    Bytes after its end are ignored, as in Kafka: librdkafka up to 1.0 sends four after its
    ApiVersions request."""
    message: Message = reader(name, version)(Cursor(data))
    return message


@cache
def reader(name: str, version: int) -> Read:
    """Returns the function that reads a message of this name and version."""
    message = schema(name)
    flexible = version in message.flexible
    elements_max = sys.maxsize if name.endswith("Response") else ELEMENTS_MAX
    return _compiled(lambda code: _structure(code, message.fields, version, flexible), elements_max)


def is_fixed(field: Field) -> bool:
    """Whether a field is one number of the same size in every version."""
    return field.type in NUMBERS and not field.is_array


def together(fields: Iterable[Field]) -> Struct:
    """The layout of consecutive fixed-size fields."""
    return Struct(">" + "".join(NUMBERS[field.type].format[1:] for field in fields))


# --- generating a reader: each function adds lines, and returns the variable that has the value


def _compiled(value: Callable[[Source], str], elements_max: int = ELEMENTS_MAX) -> Read:
    code = Source()
    code.line(f"data, at, left = cursor.data, cursor.position, {elements_max}")
    code.line("end = len(data)")
    with code.block("try"):
        code.line(f"value = {value(code)}")
    with code.block(f"except ({code.constant(struct.error)}, IndexError)"):
        code.line(f"raise {code.constant(malformed.ended)}(end, at) from None")
    code.line("cursor.position = at")
    code.line(f"cursor.elements = {elements_max} - left")
    code.line("return value")
    read: Read = code.compiled("cursor")
    return read


def _structure(code: Source, fields: tuple[Field, ...], version: int, flexible: bool) -> str:
    here = [field for field in fields if version in field.versions]
    variables = {field.name: code.constant(field.default) for field in fields}
    tagged = [field for field in here if version in field.tagged]
    numbers: list[Field] = []
    for field in (field for field in here if field not in tagged):
        if is_fixed(field):
            numbers.append(field)
            continue
        length = _fixed_length(field, flexible)
        read, size = _numbers(code, numbers, length)
        variables |= read
        variables[field.name] = _field(code, field, version, flexible, size)
        numbers = []
    variables |= _numbers(code, numbers)[0]
    if flexible:
        variables |= _tags(code, tagged, version)
    values = ", ".join(f"{name}={variable}" for name, variable in variables.items())
    message = code.variable()
    code.line(f"{message} = {code.constant(Message)}({values})")
    return message


def _numbers(
    code: Source, fields: list[Field], length: str | None = None
) -> tuple[dict[str, str], str | None]:
    """Reads consecutive numbers, and the length of the next field if it has this type, by one call.
    Returns the variables of the numbers by field, and that of the length."""
    variables = {field.name: code.variable() for field in fields}
    size = None if length is None else code.variable()
    if fields or size:
        kind = together(fields).format + (NUMBERS[length].format[1:] if length else "")
        _unpack(code, ", ".join((*variables.values(), *filter(None, (size,)))), Struct(kind))
    return variables, size


def _fixed_length(field: Field, flexible: bool) -> str | None:
    """The type of a field's length, if it has one and that is not compact."""
    if flexible and not field.never_compact:
        return None
    if field.is_array:
        return "int32"
    return LENGTHS.get(field.type)


def _unpack(code: Source, variables: str, kind: Struct) -> None:
    code.line(f"{variables}, = {code.constant(kind.unpack_from)}(data, at)")
    code.line(f"at += {kind.size}")


def _field(
    code: Source, field: Field, version: int, flexible: bool, length: str | None = None
) -> str:
    """`length`: the variable with the field's length, if that has been read."""
    if field.is_array:
        return _array(code, field, version, flexible, length)
    return _element(code, field, version, flexible, version in field.nullable, length)


def _element(
    code: Source,
    field: Field,
    version: int,
    flexible: bool,
    nullable: bool,
    length: str | None = None,
) -> str:
    value = code.variable()
    match field.type:
        case "struct" if not nullable:
            return _structure(code, field.fields, version, flexible)
        case "struct":
            _unpack(code, value, NUMBERS["int8"])
            with code.block(f"if {value} < 0"):
                code.line(f"{value} = None")
            with code.block("else"):
                code.line(f"{value} = {_structure(code, field.fields, version, flexible)}")
        case "string" | "bytes" | "records":
            size = _length(code, field, LENGTHS[field.type], nullable, flexible, length)
            with _unless_null(code, value, size, nullable):
                _sized(code, field, value, size)
        case "bool":
            code.line(f"{value} = data[at] != 0")
            code.line("at += 1")
        case "uuid":
            _check(code, str(UUID_SIZE))
            code.line(f"{value} = bytes(data[at : at + {UUID_SIZE}])")
            code.line(f"at += {UUID_SIZE}")
        case kind:
            _unpack(code, value, NUMBERS[kind])
    return value


@contextmanager
def _unless_null(code: Source, value: str, length: str, nullable: bool) -> Iterator[None]:
    """The lines that read a field of a known length. A null field is None."""
    if not nullable:
        yield
        return
    with code.block(f"if {length} < 0"):
        code.line(f"{value} = None")
    with code.block("else"):
        yield


def _sized(code: Source, field: Field, value: str, size: str) -> None:
    """Reads a field whose length is known."""
    _check(code, size)
    if field.type == "records":
        code.line(f"{value} = cursor.records(at, {size})")
    elif field.type == "bytes":
        code.line(f"{value} = data[at : at + {size}]")
    else:
        with code.block("try"):
            code.line(f"{value} = data[at : at + {size}].tobytes().decode()")
        with code.block("except UnicodeDecodeError as error"):
            no_utf8 = code.constant(malformed.no_utf8)
            code.line(f"raise {no_utf8}({field.name!r}, at, error) from None")
    code.line(f"at += {size}")


def _check(code: Source, size: str) -> None:
    """Checks that this many bytes are left."""
    with code.block(f"if {size} > end - at"):
        code.line(f"raise {code.constant(malformed.too_few)}({size}, end, at)")


def _length(
    code: Source, field: Field, kind: str, nullable: bool, flexible: bool, read: str | None = None
) -> str:
    """Reads a length. Any negative one is null. `kind`: its type if it is not compact. `read`: the
    variable with the length, if it has been read."""
    if read is not None:
        length = read
    elif flexible:
        is_text = kind == "int16"
        length = uvarint(code, partial(_long_text, field.name) if is_text else _long_uvarint)
        code.line(f"{length} -= 1")
    else:
        length = code.variable()
        _unpack(code, length, NUMBERS[kind])
    if not nullable:
        with code.block(f"if {length} < 0"):
            code.line(f"raise {code.constant(malformed.bad_length)}({field.name!r}, at, {length})")
    return length


def uvarint(code: Source, read_long: ReadLong | None = None) -> str:
    """Adds the lines that read a number of variable size at `at` of `data`. Returns its variable.
    The lines may raise BadRequestError and IndexError."""
    number = code.variable()
    code.line(f"{number} = data[at]")
    code.line("at += 1")
    with code.block(f"if {number} > {ONE_BYTE_MAX}"):
        code.line(f"{number}, at = {code.constant(read_long or _long_uvarint)}(data, at - 1)")
    return number


def _array(code: Source, field: Field, version: int, flexible: bool, length: str | None) -> str:
    values = code.variable()
    nullable = version in field.nullable
    count = _length(code, field, "int32", nullable, flexible, length)
    with _unless_null(code, values, count, nullable):
        with code.block(f"if {count} > end - at"):  # each element takes at least one byte
            code.line(
                f"raise {code.constant(malformed.too_many)}({field.name!r}, end, at, {count})"
            )
        _take(code, count, field.name)
        code.line(f"{values} = []")
        with code.block(f"for _ in range({count})"):
            code.line(f"{values}.append({_element(code, field, version, flexible, False)})")
    return values


def _take(code: Source, count: str, name: str) -> None:
    """Counts elements towards the limit of a message."""
    code.line(f"left -= {count}")
    with code.block("if left < 0"):
        code.line(f"raise {code.constant(malformed.too_large)}({name!r}, at)")


def _tags(code: Source, fields: list[Field], version: int) -> dict[str, str]:
    variables = {field.name: code.variable() for field in fields}
    for field in fields:
        code.line(f"{variables[field.name]} = {code.constant(field.default)}")
    count, before = uvarint(code), code.variable()
    _take(code, count, "tagged fields")
    code.line(f"{before} = -1")
    with code.block(f"for _ in range({count})"):
        tag, size = uvarint(code), uvarint(code)
        with code.block(f"if {tag} <= {before}"):
            code.line(f"raise {code.constant(malformed.bad_tag)}(at, {tag}, {before})")
        code.line(f"{before} = {tag}")
        _check(code, size)
        for field in fields:
            reads = _compiled(partial(_field, field=field, version=version, flexible=True))
            inside = f"{code.constant(_inside)}({code.constant(reads)}"
            with code.block(f"if {tag} == {field.tag}"):
                inside += f", data[: at + {size}], at, {tag})"
                code.line(f"{variables[field.name]} = {inside}")
        code.line(f"at += {size}")
    return variables


# --- functions that readers call


def _inside(read: Read, data: memoryview, start: int, tag: int) -> Any:
    """Reads a tagged field, which must use all of its bytes."""
    inner = Cursor(data, start)
    value = read(inner)
    if inner.remaining:
        raise BadRequestError(f"{inner.remaining} bytes too many in tag {tag} at {start}")
    return value


def _long_text(name: str, data: memoryview, at: int) -> tuple[int, int]:
    """Reads the length of a string, plus one, of several bytes. Returns it and the position after
    it."""
    number, after = _long_uvarint(data, at)
    if number > TEXT_MAX + 1:
        raise malformed.bad_length(name, after, number - 1)
    return number, after


def _long_uvarint(data: memoryview, at: int) -> tuple[int, int]:
    """Reads a number of several bytes. Returns it and the position after it."""
    cursor = Cursor(data, at)
    return cursor.uvarint(), cursor.position
