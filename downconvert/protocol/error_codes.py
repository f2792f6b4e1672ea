"""Finds the error codes in a response, by the fields of its schema."""

from collections.abc import Callable
from functools import cache
from types import SimpleNamespace
from typing import Final

from .schemas import ApiKey, Field, schema
from .source import Source

SUFFIX: Final = "error_code"


def error_codes(api: ApiKey, body: SimpleNamespace) -> dict[int, int]:
    """How often a response contains each error code, without NONE."""
    return error_counter(api)(body)


@cache
def error_counter(api: ApiKey) -> Callable[[SimpleNamespace], dict[int, int]]:
    """`error_codes` for one API, as a function of the response."""
    code = Source()
    code.line("found = {}")
    _add(code, "body", schema(f"{api.name}Response").fields)
    code.line("return found")
    counter: Callable[[SimpleNamespace], dict[int, int]] = code.compiled("body")
    return counter


def _add(code: Source, message: str, fields: tuple[Field, ...]) -> None:
    """Adds the lines that count a structure's errors. Fields that are missing have no errors."""
    get = code.variable()
    code.line(f"{get} = {message}.__dict__.get")
    for field in fields:
        if field.fields and _has_errors(field):
            _add_inner(code, get, field)
        elif _is_error(field):
            error = code.variable()
            code.line(f"{error} = {get}({field.name!r}, 0)")
            with code.block(f"if {error}"):
                code.line(f"found[int({error})] = found.get(int({error}), 0) + 1")


def _add_inner(code: Source, get: str, field: Field) -> None:
    value = code.variable()
    code.line(f"{value} = {get}({field.name!r})")
    if field.is_array:
        one = code.variable()
        with code.block(f"for {one} in {value} or ()"):
            _add(code, one, field.fields)
    else:
        with code.block(f"if {value} is not None"):
            _add(code, value, field.fields)


def _is_error(field: Field) -> bool:
    return field.name.endswith(SUFFIX) and field.type == "int16"


def _has_errors(field: Field) -> bool:
    return _is_error(field) or any(_has_errors(inner) for inner in field.fields)
