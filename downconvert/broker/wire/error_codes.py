"""Which errors an answer tells, wherever in it they stand: found by the fields of its schema."""

from collections import Counter
from dataclasses import dataclass
from functools import cache
from types import SimpleNamespace
from typing import Any, Final

from .schemas import ApiKey, Field, schema

SUFFIX: Final = "error_code"


@dataclass(frozen=True, slots=True)
class _Places:
    """Of a structure: its fields that are errors, and those that have errors inside."""

    codes: tuple[str, ...]
    inside: tuple[tuple[str, bool, "_Places"], ...]  # name, whether it is an array, where inside

    @property
    def is_empty(self) -> bool:
        return not (self.codes or self.inside)


def error_codes(api: ApiKey, body: SimpleNamespace) -> Counter[int]:
    """How often an answer tells each error; that there is none does not count."""
    found = Counter[int]()
    _count(body, _places_in(api), found)
    return found


def _count(message: Any, places: _Places, found: Counter[int]) -> None:
    fields = vars(message)  # those that are not there are written as their defaults
    for name in places.codes:
        code = fields.get(name, 0)
        if code:
            found[int(code)] += 1
    for name, is_array, inside in places.inside:
        value = fields.get(name)
        if value is None:
            continue
        for one in value if is_array else (value,):
            _count(one, inside, found)


@cache
def _places_in(api: ApiKey) -> _Places:
    return _places(schema(f"{api.name}Response").fields)


def _places(fields: tuple[Field, ...]) -> _Places:
    codes = tuple(one.name for one in fields if one.name.endswith(SUFFIX) and one.type == "int16")
    inside = [(one.name, one.is_array, _places(one.fields)) for one in fields if one.fields]
    return _Places(codes, tuple(one for one in inside if not one[2].is_empty))
