"""The output of Apache Kafka 3.9.1's own classes: segments, and conversions of them.

`data/kafka.zip` holds segments, Kafka's reading of them, and the bytes that its converters, eager
and lazy, made of them; `data/vectors.zip` holds responses of Kafka's indexes and partitioner."""

import io
import json
import zipfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

DATA: Final = Path(__file__).parent / "data"


@dataclass(frozen=True, slots=True)
class Eager:
    """The result of FileRecords.downConvert, or its error."""

    error: str | None
    size: int
    records_converted: int
    blob: str | None  # the name of the bytes


@dataclass(frozen=True, slots=True)
class Lazy:
    """The size that LazyDownConversionRecords promised and the bytes of its send, or its error."""

    error: str | None
    promised: int
    written: int
    records_converted: int
    filler: int | None  # bytes at the end of what was written; None: not told
    sha256: str  # of all that was written
    blob: str | None  # where it is no prefix of the eager bytes and filler
    against_eager: Literal["same", "first batch twice"] | None  # None: eager refused


@dataclass(frozen=True, slots=True)
class Conversion:
    """One slice of one segment, converted by Kafka."""

    input: str
    position: int
    size: int
    to_magic: int
    first_offset: int
    eager: Eager
    lazy: Lazy

    def __str__(self) -> str:
        slice_ = f"{self.position}+{self.size}"
        return f"{self.input}[{slice_}]-to-v{self.to_magic}-from-{self.first_offset}"

    @property
    def source(self) -> bytes:
        """The bytes that were converted."""
        return segment(self.input)[self.position : self.position + self.size]


def inputs() -> list[str]:
    """The names of all segments."""
    return [Path(name).stem for name in _kafka().namelist() if name.startswith("inputs/")]


def kinds() -> list[str]:
    """The kinds that begin the names of segments: v0, v1, v2, txn, control …"""
    return sorted({kind_of(name) for name in inputs()})


def kind_of(name: str) -> str:
    """The first word of a segment's name."""
    return name.partition("-")[0]


def of_kind(kind: str) -> list[str]:
    """The names of all segments of a kind: tests of many take one kind each, which is quicker."""
    return [name for name in inputs() if kind_of(name) == kind]


def segment(name: str) -> bytes:
    """A segment's bytes."""
    return _kafka().read(f"inputs/{name}.log")


def records(name: str) -> list[dict[str, Any]]:
    """How Kafka reads a segment: `{"batch": {...}}`, then that batch's records, and so on.

    Keys, values and header values are in hexadecimal, or null."""
    lines = _kafka().read(f"records/{name}.jsonl").decode().splitlines()
    return [json.loads(line) for line in lines]


def blob(name: str) -> bytes:
    """The bytes that an expectation names."""
    return _kafka().read(f"blobs/{name}")


@cache
def conversions() -> list[Conversion]:
    """All conversions, in the order of the manifest."""
    lines = _kafka().read("manifest.jsonl").decode().splitlines()
    return [_conversion(json.loads(line)) for line in lines]


def vectors(name: str) -> bytes:
    """A file of `vectors.zip`."""
    with zipfile.ZipFile(DATA / "vectors.zip") as archive:
        return archive.read(name)


@cache
def _kafka() -> zipfile.ZipFile:
    with zipfile.ZipFile(DATA / "kafka.zip") as archive:
        return zipfile.ZipFile(io.BytesIO(archive.read("kafka.zip")))


def _conversion(line: dict[str, Any]) -> Conversion:
    eager, lazy = line.pop("eager"), line.pop("lazy")
    return Conversion(
        **line,
        eager=Eager(
            error=eager.get("error"),
            size=eager.get("size", 0),
            records_converted=eager.get("records_converted", 0),
            blob=eager.get("blob"),
        ),
        lazy=Lazy(
            error=lazy.get("error"),
            promised=lazy.get("promised", 0),
            written=lazy.get("written", 0),
            records_converted=lazy.get("records_converted", 0),
            filler=lazy.get("filler"),
            sha256=lazy.get("sha256", ""),
            blob=lazy.get("blob"),
            against_eager=lazy.get("against_eager"),
        ),
    )
