"""Reads requests and makes responses as plain values, for the fast paths of a broker.

A form says which requests take a fast path: some fields have the same value in all of them, and
some arrays the same number of elements. Requests of another form are left to decoder.py, which also
finds the error in damaged bytes. So are tagged fields, arrays of more than 126 elements, and, in
flexible versions, longer strings.

A function for each version is generated from the message's definition (source.py). It reads or
writes all numbers up to the next string by one call.

Not here: the forms (broker/handlers/fast_path.py and its neighbours)."""

import struct
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from struct import Struct
from typing import Any, Final, TypeAlias

from .decoder import NUMBERS, ONE_BYTE_MAX, UUID_SIZE, uvarint
from .errors import BadRequestError
from .responses import LENGTH_SIZE, ResponseSend
from .schemas import Field, schema
from .source import Source

# Reads a request from its frame and the position of its body. None: it has another form.
Read: TypeAlias = Callable[[memoryview, int], tuple[Any, ...] | None]
# Makes a response from the correlation id and the values of its fields.
Respond: TypeAlias = Callable[..., ResponseSend]
# Values of numbers, and how many elements arrays have: none or one. None: null.
Fixed: TypeAlias = Mapping[str, int | None]

FORMATS: Final = {kind: number.format[1:] for kind, number in NUMBERS.items()}
FORMATS["uuid"] = f"{UUID_SIZE}s"
ELEMENTS_MAX: Final = ONE_BYTE_MAX - 1  # of an array
LENGTH: Final = Struct(">i")
ERRORS: Final = (struct.error, IndexError, UnicodeDecodeError, BadRequestError)


def reader(name: str, version: int, fields: tuple[str, ...], fixed: Fixed) -> Read:
    """Returns the function that reads requests in which `fixed` holds. It returns the values of
    `fields`. If an array has one element, the fields of this element are among them; the elements
    of other arrays are tuples. A field that the version lacks has its default. Byte strings and
    records are views of the frame."""
    return _Reading(name, version, fields, fixed).function()


def writer(name: str, version: int, fields: tuple[str, ...], fixed: Fixed) -> Respond:
    """Returns the function that makes a response. The values of `fields` are its arguments, in the
    form that a reader returns them; records are a `Send`. Other fields have their value in `fixed`,
    or else their default."""
    return _Writing(name, version, fields, fixed).function()


class _Lines:
    """The lines of a function, and the numbers that the next one reads or writes together."""

    def __init__(self, name: str, version: int, chosen: tuple[str, ...], fixed: Fixed) -> None:
        message = schema(name)
        self.code, self.fields, self.version = Source(), message.fields, version
        self.is_flexible = version in message.flexible
        self.chosen, self.fixed = chosen, fixed
        self.format = ">"  # of the numbers
        self.numbers: list[str] = []  # variables to read, or values to write

    def add(self, format_: str, number: str) -> None:
        self.format += format_
        self.numbers.append(number)

    def take(self) -> tuple[Struct, str]:
        """The layout of the numbers, and their list."""
        taken = Struct(self.format), "".join(f"{number}, " for number in self.numbers)
        self.format, self.numbers = ">", []
        return taken

    def here(self, fields: tuple[Field, ...]) -> list[Field]:
        """The fields that this version has, without tagged ones."""
        return [one for one in fields if self.version in one.versions and not one.tagged]

    def length(self, one: Field) -> str:
        """The format of a length. In flexible versions, one byte is enough for most."""
        if self.is_flexible:
            return "b"
        return "h" if one.type == "string" and not one.is_array else "i"

    def stored(self, length: int) -> int:
        """A length as in the message. -1: null."""
        return length + self.is_flexible

    def tuple_of(self, values: Mapping[str, str]) -> str:
        """The expression for a tuple of those that are chosen."""
        return "".join(("(", *(f"{values[name]}, " for name in self.chosen if name in values), ")"))


class _Reading(_Lines):
    checks: tuple[str, ...] = ()  # conditions of the numbers; a request is left if one is true

    def function(self) -> Read:
        code = self.code
        code.line("end = len(data)")
        with code.block("try"):
            values = self.structure(self.fields)
            self.read()
        with code.block(f"except {code.constant(ERRORS)}"):
            code.line("return None")
        code.line(f"return {self.tuple_of(values)} if at <= end else None")
        read: Read = code.compiled("data, at")
        return read

    def number(self, format_: str, *checks: str) -> str:
        """The variable of a number. `checks` have {} in its place."""
        number = self.code.variable()
        self.add(format_, number)
        self.checks += tuple(check.format(number) for check in checks)
        return number

    def read(self) -> None:
        """Reads the numbers, and checks them."""
        layout, numbers = self.take()
        if numbers:
            self.code.line(f"{numbers}= {self.code.constant(layout.unpack_from)}(data, at)")
        if layout.size:
            self.code.line(f"at += {layout.size}")
        if self.checks:
            with self.code.block(f"if {' or '.join(self.checks)}"):
                self.code.line("return None")
        self.checks = ()

    def structure(self, fields: tuple[Field, ...]) -> dict[str, str]:
        """Reads a structure. Returns the variables or constants of its fields."""
        values = {one.name: self.code.constant(one.default) for one in fields}
        for one in self.here(fields):
            values |= self.array(one) if one.is_array else self.value(one)
        if self.is_flexible:
            self.number("b", "{}")  # how many tagged fields follow
        return values

    def value(self, one: Field) -> dict[str, str]:
        is_number, is_text = one.type in FORMATS, one.type == "string"
        if is_number and one.name in self.chosen:
            return {one.name: self.number(FORMATS[one.type])}
        if one.name in self.fixed:
            fixed = self.fixed[one.name]
            format_ = FORMATS[one.type] if is_number else self.length(one)
            self.number(format_, f"{{}} != {self.stored(-1) if fixed is None else fixed}")
            return {}
        if is_number:
            self.format += f"{Struct('>' + FORMATS[one.type]).size}x"
            return {}
        assert is_text or one.type in ("bytes", "records"), one
        if self.is_flexible and not is_text:
            self.read()
            size = uvarint(self.code)
        else:
            size = self.number(self.length(one))
        nullable = is_text and self.version in one.nullable
        self.checks += (f"{size} < {self.stored(-1 if nullable else 0)}",)
        self.read()
        value, start = self.code.variable(), self.code.variable()
        with ExitStack() as block:
            if nullable:
                self.code.line(f"{value} = None")
                block.enter_context(self.code.block(f"if {size} >= {self.stored(0)}"))
            self.code.line(f"{start} = at")
            self.code.line(f"at += {size}{' - 1' * self.is_flexible}")
            self.code.line(f"{value} = data[{start}:at]{'.tobytes().decode()' * is_text}")
        return {one.name: value}

    def array(self, one: Field) -> dict[str, str]:
        count = self.fixed.get(one.name)
        if count is not None:
            self.number(self.length(one), f"{{}} != {self.stored(count)}")
            return self.structure(one.fields) if count else {}
        least, most = self.stored(0), self.stored(ELEMENTS_MAX)
        number = self.number(self.length(one), f"not {least} <= {{}} <= {most}")
        self.read()
        values = self.code.variable()
        self.code.line(f"{values} = []")
        with self.code.block(f"for _ in range({number}{' - 1' * self.is_flexible})"):
            element = self.structure(one.fields)
            self.read()
            self.code.line(f"{values}.append({self.tuple_of(element)})")
        return {one.name: values}


class _Writing(_Lines):
    head, records, out = "", "", ""  # variables: bytes before the records, the records, the bytes

    def function(self) -> Respond:
        self.add("ii" + "x" * self.is_flexible, "0, number")  # the length, the correlation id, tags
        self.structure(self.fields, dict(zip(self.chosen, self.chosen, strict=True)))
        self.write()
        parts = list(filter(None, (self.head, self.records, self.out)))
        size = [f"{part}.size" if part == self.records else f"len({part})" for part in parts]
        self.code.line(f"size = {' + '.join(size)}")
        pack_length = self.code.constant(LENGTH.pack_into)
        self.code.line(f"{pack_length}({parts[0]}, 0, size - {LENGTH_SIZE})")
        send = self.code.constant(ResponseSend)
        self.code.line(f"return {send}([{', '.join(parts)}], size)")
        parameters = self.given(self.fields)
        named = [name for name in self.chosen if name in parameters]
        respond: Respond = self.code.compiled(", ".join(("number", *named)))
        return respond

    def given(self, fields: tuple[Field, ...]) -> set[str]:
        """The chosen fields of a structure, in any version. Those in tuples are not among them."""
        inside = [self.given(one.fields) for one in fields if self.fixed.get(one.name) == 1]
        return {one.name for one in fields if one.name in self.chosen}.union(*inside)

    def write(self) -> None:
        """Writes the numbers."""
        layout, numbers = self.take()
        if numbers:
            packed = f"{self.code.constant(layout.pack)}({numbers})"
            if self.out:
                self.code.line(f"{self.out} += {packed}")
            else:
                self.out = self.code.variable()
                self.code.line(f"{self.out} = bytearray({packed})")

    def structure(self, fields: tuple[Field, ...], values: Mapping[str, str]) -> None:
        """Writes a structure. `values`: the expressions of its chosen fields."""
        for one in self.here(fields):
            value = values.get(one.name)
            if value is None:
                self.default(one, values)
            elif one.is_array:
                self.array(one, value)
            elif one.type in FORMATS:
                self.add(FORMATS[one.type], value)
            elif one.type == "string":
                text = self.code.variable()
                self.code.line(f"{text} = {value}.encode()")
                self.add(self.length(one), f"len({text}){' + 1' * self.is_flexible}")
                self.write()
                self.code.line(f"{self.out} += {text}")
            else:
                self.send(one, value)
        if self.is_flexible:
            self.add("b", "0")  # no tagged fields

    def default(self, one: Field, values: Mapping[str, str]) -> None:
        """Writes a field that is not chosen, or an array with one element of chosen fields."""
        value = self.fixed.get(one.name, one.default)
        if one.type in FORMATS and not one.is_array:
            self.add(FORMATS[one.type], self.code.constant(value))
            return
        length = value if isinstance(value, int) else -1 if value is None else len(value)
        self.add(self.length(one), str(self.stored(length)))
        if length == 1:
            self.structure(one.fields, values)

    def array(self, one: Field, values: str) -> None:
        self.add(self.length(one), f"len({values}){' + 1' * self.is_flexible}")
        self.write()
        inside = {field.name: self.code.variable() for field in one.fields}
        element = {name: inside[name] for name in self.chosen if name in inside}
        with self.code.block(f"for {self.tuple_of(element)} in {values}"):
            self.structure(one.fields, element)
            self.write()

    def send(self, one: Field, records: str) -> None:
        if self.is_flexible:
            self.write()
            size = self.code.variable()
            self.code.line(f"{size} = {records}.size + 1")
            with self.code.block(f"while {size} > {ONE_BYTE_MAX}"):
                self.code.line(f"{self.out}.append({size} & {ONE_BYTE_MAX} | {ONE_BYTE_MAX + 1})")
                self.code.line(f"{size} >>= 7")
            self.code.line(f"{self.out}.append({size})")
        else:
            self.add(self.length(one), f"{records}.size")
            self.write()
        self.head, self.records, self.out = self.out, records, ""
