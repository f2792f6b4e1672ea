"""A workload as one line of text: `codec=lz4,record=100..1000,size=64MiB,seed=1`.

The same line makes the same bytes on every machine, and every report prints it.

Not here: writing the segments (generate.py), the contents of values (values.py)."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Final, Self

from records.formats import Codec
from records.units import KiB, MiB, parse_size, plain_size

from .checks import check

RECORD_SIZE_MAX: Final = 256 * MiB
MIXED: Final = "mixed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A producer's output. Sizes are bytes; shares are 0 to 1.

    codec: of the batches; "mixed" changes from batch to batch.
    record: smallest and largest size of a record's value; small ones are more frequent.
    size: all values and keys together, before compression.
    batch: values and keys of one batch, before compression (a producer's batch.size).
    segment: the size on disk at which a new segment begins.
    keys, headers, nulls: the share of records with a key, with headers, without a value
    (tombstones). random: the share of values that are random bytes. The rest is JSON, like events.
    gaps: the share of records before which offsets are missing, as after compaction."""

    codec: str = "none"
    record: tuple[int, int] = (100, 1000)
    size: int = 64 * MiB
    batch: int = 16 * KiB
    segment: int = 32 * MiB
    keys: float = 1.0
    headers: float = 0.0
    nulls: float = 0.0
    random: float = 0.1
    gaps: float = 0.0
    seed: int = 1

    def __post_init__(self) -> None:
        names = [codec.name.lower() for codec in Codec] + [MIXED]
        check(self.codec in names, f"codec is one of {', '.join(names)}")
        low, high = self.record
        check(
            1 <= low <= high <= RECORD_SIZE_MAX,
            f"record is 1 to {RECORD_SIZE_MAX} bytes, or a range such as 100..1000",
        )
        check(self.size >= 1, "size is at least one byte")
        check(1 <= self.batch <= 2**30, "batch is 1 byte to 1GiB")
        check(4 * KiB <= self.segment <= 2**31 - 1, "segment is 4KiB to 2147483647 bytes")
        for share in ("keys", "headers", "nulls", "random", "gaps"):
            check(0 <= getattr(self, share) <= 1, f"{share} is a share from 0 to 1")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Reads `name=value,...`. Other options have their defaults. ValueError: one line with the
        mistake."""
        values: dict[str, object] = {}
        for part in filter(None, (part.strip() for part in text.split(","))):
            name, equals, value = part.partition("=")
            if not equals or name not in _PARSERS:
                known = ", ".join(_PARSERS)
                raise ValueError(f"{part!r} is not one of {known}, each as name=value")
            if name in values:
                raise ValueError(f"{name} is given twice")
            try:
                values[name] = _PARSERS[name](value)
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from None
        return cls(**values)  # type: ignore[arg-type]

    def __str__(self) -> str:
        """The line: all options that differ from the default, and always codec, record, size,
        seed."""
        always = ("codec", "record", "size", "seed")
        return ",".join(
            f"{field.name}={_written(field.name, getattr(self, field.name))}"
            for field in sorted(fields(self), key=lambda field: field.name == "seed")
            if field.name in always or getattr(self, field.name) != field.default
        )


def _written(name: str, value: Any) -> str:
    match value:
        case (low, high) if low != high:
            return f"{plain_size(low)}..{plain_size(high)}"
        case (size, _):
            return plain_size(size)
        case float():
            return f"{value:g}"
        case int() if name != "seed":
            return plain_size(value)
        case _:
            return str(value)


def _range(text: str) -> tuple[int, int]:
    low, dots, high = text.partition("..")
    return parse_size(low), parse_size(high if dots else low)


def _number(text: str) -> int:
    if not text.isdecimal():
        raise ValueError(f"{text!r} is not a whole number")
    return int(text)


def _share(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a number") from None


_PARSERS: Final[dict[str, Callable[[str], object]]] = {
    "codec": str.lower,
    "record": _range,
    "size": parse_size,
    "batch": parse_size,
    "segment": parse_size,
    "keys": _share,
    "headers": _share,
    "nulls": _share,
    "random": _share,
    "gaps": _share,
    "seed": _number,
}
