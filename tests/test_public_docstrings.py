"""Every public member of the library says what it is: parameters, results, units, errors."""

import enum
import inspect
from collections.abc import Iterator

import pytest

import downconvert
import records


def members(package: object) -> Iterator[tuple[str, object]]:
    """A package's public names, and the public methods and properties of its classes."""
    for name in package.__all__:
        value = getattr(package, name)
        yield name, value
        if not inspect.isclass(value) or issubclass(value, (BaseException, enum.Enum)):
            continue
        for at, member in vars(value).items():
            is_method = inspect.isfunction(member) or isinstance(
                member, (property, classmethod, staticmethod)
            )
            if is_method and not at.startswith("_"):
                yield f"{name}.{at}", getattr(member, "__func__", member)


PUBLIC = [
    (f"{package.__name__}.{name}", member)
    for package in (records, downconvert)
    for name, member in members(package)
]


@pytest.mark.parametrize(("name", "member"), PUBLIC, ids=[name for name, _ in PUBLIC])
def test_a_public_member_says_what_it_is(name: str, member: object) -> None:
    output = inspect.getdoc(member) if not isinstance(member, property) else member.__doc__
    assert output, name
    assert not output.startswith(f"{name.split('.')[-1]}("), f"{name}: a dataclass without words"
