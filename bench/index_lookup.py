"""What does a lookup in an index of 10 MiB cost, in time and in pages?

Our index, which searches its warm section first, and a plain binary search of the same mapping take
turns. They look up keys near the end of the index and anywhere in it, and their results are
compared. To count pages, the file is evicted from the page cache, read-ahead is turned off, and
after each lookup `mincore` shows which pages were read. The minimum is the one page of the entry.

    python -m bench.index_lookup --plot pages.svg

Not here: the search (downconvert/storage/indexes/search.py)."""

import ctypes
import json
import mmap
import os
import tempfile
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from random import Random
from statistics import mean, median
from time import perf_counter
from typing import Any, Final, Protocol

import click

from downconvert.storage import OffsetIndex, TimeIndex
from downconvert.storage.indexes.offset_index import ENTRY as OFFSET_ENTRY
from downconvert.storage.indexes.search import KEY, MARKS_AFTER, WARM_SIZE, WarmSearch
from downconvert.storage.indexes.time_index import ENTRY as TIME_ENTRY
from records.units import KiB, MiB

from .measuring.rounds import one_core

SIZE: Final = 10 * MiB
SMOKE_SIZE: Final = 256 * KiB
PAGE: Final = mmap.PAGESIZE
LOOKUPS: Final = 20_000  # of a round
ROUNDS: Final = 7
COLD_LOOKUPS: Final = 40
LIBC: Final = ctypes.CDLL(None, use_errno=True)
Lookup = Callable[[int], tuple[int, int]]


class NotOnDiskError(Exception):
    """A file system that keeps files in memory, so that pages cannot be counted."""


class Search(Protocol):
    """Finds the slot of the last of `count` keys that is not above one."""

    def floor(self, key: int, count: int) -> int: ...


@dataclass(frozen=True, slots=True)
class Timing:
    """Microseconds of a lookup, in the best round of each search."""

    index: str
    where: str
    ours: float
    plain: float


@dataclass(frozen=True, slots=True)
class Pages:
    """The pages of an index that a lookup reads if no page is in memory, and its time."""

    where: str
    least: float  # pages of the found entry
    ours: float
    plain: float
    ours_microseconds: float
    plain_microseconds: float


@dataclass(frozen=True, slots=True)
class Growth:
    """The pages that lookups at the end of a growing index have read. These stay in memory."""

    entries: int
    ours: int  # different pages so far
    plain: int


class PlainSearch:
    """A binary search over a whole mapping."""

    def __init__(self, view: mmap.mmap, entry_size: int) -> None:
        self._size = entry_size
        self._key = partial(KEY.unpack_from, view)

    def floor(self, key: int, count: int) -> int:
        positions = range(0, count * self._size, self._size)
        return bisect_right(positions, (key,), key=self._key) - 1


def write_indexes(directory: Path, size: int) -> tuple[Path, Path]:
    """An offset index and a time index as of a busy partition, always the same."""
    random = Random(1)
    offset = position = 0
    timestamp = 1_700_000_000_000
    offsets, times = bytearray(), bytearray()
    for _ in range(size // OFFSET_ENTRY.size):
        offset += random.randint(1, 80)
        position += random.randint(4097, 4700) if position < 2**31 - 5000 else 0
        timestamp += random.randint(1, 50)
        offsets += OFFSET_ENTRY.pack(offset, position)
        times += TIME_ENTRY.pack(timestamp, offset)
    paths = directory / "00000000000000000000.index", directory / "00000000000000000000.timeindex"
    paths[0].write_bytes(offsets)
    paths[1].write_bytes(times[: size // TIME_ENTRY.size * TIME_ENTRY.size])
    return paths


def timings(paths: tuple[Path, Path]) -> Iterator[Timing]:
    """Times lookups of existing entries, and of keys between them."""
    offsets, times = OffsetIndex.open(paths[0], 0), TimeIndex.open(paths[1], 0)
    for name, index, entry_size in (("offset", offsets, 8), ("time", times, 12)):
        view = index.file.view
        assert isinstance(view, mmap.mmap)
        search, count = PlainSearch(view, entry_size), len(index)
        shift = 32 if name == "offset" else 0  # bits of a key besides an offset

        def plain(
            target: int,
            search: PlainSearch = search,
            index: OffsetIndex | TimeIndex = index,
            count: int = count,
            shift: int = shift,
        ) -> tuple[int, int]:
            return index.entry(search.floor((target << shift) | (2**shift - 1), count))

        warm = WARM_SIZE // entry_size
        for where, first in (("near the end", count - warm), ("anywhere", 0)):
            random = Random(2)
            slots = [random.randrange(first, count) for _ in range(LOOKUPS)]
            targets = [index.entry(slot)[0] + random.choice((0, 1)) for slot in slots]
            for target in targets[: 2 * MARKS_AFTER] + targets[:1000]:
                if index.lookup(target) != plain(target):
                    raise AssertionError(f"{name} {target}: {index.lookup(target)}")
            rounds = [(_time(index.lookup, targets), _time(plain, targets)) for _ in range(ROUNDS)]
            yield Timing(name, where, *(min(times) for times in zip(*rounds, strict=True)))


def _time(lookup: Lookup, targets: Sequence[int]) -> float:
    started = perf_counter()
    for target in targets:
        lookup(target)
    return (perf_counter() - started) / len(targets) * 1e6


def pages(path: Path) -> Iterator[Pages]:
    """Counts the pages of single lookups, with no page of the file in memory."""
    count = path.stat().st_size // OFFSET_ENTRY.size
    warm = WARM_SIZE // OFFSET_ENTRY.size
    for where, first in (("near the end", count - warm), ("anywhere", 0)):
        random = Random(3)
        slots = [random.randrange(first, count) for _ in range(COLD_LOOKUPS)]
        found: dict[str, list[tuple[int, float]]] = {"ours": [], "plain": []}
        for slot in slots:
            for name, results in found.items():
                with cold(path) as view:
                    key = _key_of(path, slot)
                    kind = WarmSearch if name == "ours" else PlainSearch
                    search = kind(view, OFFSET_ENTRY.size)
                    started = perf_counter()
                    response = search.floor(key, count)
                    seconds = perf_counter() - started
                    assert response == slot
                    results.append((len(resident(view)), seconds))
        yield Pages(
            where,
            1.0,
            *(mean(pages for pages, _ in results) for results in found.values()),
            *(1e6 * median(seconds for _, seconds in results) for results in found.values()),
        )


def growth(path: Path) -> Iterator[Growth]:
    """The second half of the index is appended entry by entry, and each new entry is looked up.
    Yields the number of pages read so far."""
    count = path.stat().st_size // OFFSET_ENTRY.size
    step = PAGE // OFFSET_ENTRY.size // 4
    keys = {entries: _key_of(path, entries - 10) for entries in range(count // 2, count, step)}
    with cold(path) as ours:
        read_by_ours = list(_read_so_far(ours, keys, WarmSearch))
    with cold(path) as plain:
        read_by_plain = list(_read_so_far(plain, keys, PlainSearch))
    for entries, mine, other in zip(keys, read_by_ours, read_by_plain, strict=True):
        yield Growth(entries, mine, other)


def _read_so_far(
    view: mmap.mmap, keys: dict[int, int], kind: Callable[[mmap.mmap, int], Search]
) -> Iterator[int]:
    for entries, key in keys.items():
        slot = kind(view, OFFSET_ENTRY.size).floor(key, entries)
        assert slot == entries - 10
        yield len(resident(view))


def _key_of(path: Path, slot: int) -> int:
    with path.open("rb", buffering=0) as file:
        file.seek(slot * OFFSET_ENTRY.size)
        key: int = KEY.unpack(file.read(KEY.size))[0]
    return key


@contextmanager
def cold(path: Path) -> Iterator[mmap.mmap]:
    """A mapping of a file without a page in memory, which reads one page at a time."""
    fd = os.open(path, os.O_RDWR)
    try:
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        # The mapping is private and writable, because Python gives the address of no other kind.
        with mmap.mmap(fd, 0, access=mmap.ACCESS_COPY) as view:
            view.madvise(mmap.MADV_RANDOM)
            if resident(view):
                raise NotOnDiskError(f"{path.parent} does not let go of its pages: try --dir")
            yield view
    finally:
        os.close(fd)


def resident(view: mmap.mmap) -> list[int]:
    """The pages of a mapping that are in memory."""
    states = (ctypes.c_ubyte * (-(-len(view) // PAGE)))()
    first = ctypes.c_char.from_buffer(view)
    failed = LIBC.mincore(
        ctypes.c_void_p(ctypes.addressof(first)), ctypes.c_size_t(len(view)), states
    )
    del first
    if failed:
        raise OSError(ctypes.get_errno(), "mincore")
    return [page for page, state in enumerate(states) if state & 1]


def plot(found: Sequence[Growth], singles: Sequence[Pages], path: Path) -> None:
    """Both counts of pages, as a picture."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.fonttype"] = "none"  # text as text: a tenth of the size
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(9, 3.4), constrained_layout=True)
    found = found[:: max(1, len(found) // 100)]
    entries = [each.entries for each in found]
    least = [(each - entries[0]) * OFFSET_ENTRY.size / PAGE + 1 for each in entries]
    left.plot(entries, [each.plain for each in found], label="plain binary search")
    left.plot(entries, [each.ours for each in found], label="warm section first")
    left.plot(entries, least, "k:", label="least: the pages appended")
    left.set(xlabel="entries in the index", ylabel="different pages read so far")
    left.set_title("lookups at the end of a growing index", fontsize=10)
    left.legend(fontsize=8)
    width = 0.27
    for number, name in enumerate(("plain", "ours", "least")):
        at = [place + (number - 1) * width for place in range(len(singles))]
        label = {"plain": "plain", "ours": "warm section first", "least": "least"}[name]
        right.bar(at, [getattr(each, name) for each in singles], width, label=label)
    right.set_xticks(range(len(singles)), [each.where for each in singles])
    right.set(ylabel="pages read by a first lookup", ylim=(0, 17))
    right.set_title("an index that is not in memory", fontsize=10)
    right.legend(fontsize=8)
    figure.savefig(path)


@click.command(help=(__doc__ or "").partition("\n\n    ")[0])
@click.option("--smoke", is_flag=True, help="A small index: does it run, and find what is there?")
@click.option("--dir", "directory", type=click.Path(path_type=Path), help="On the disk to measure.")
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="All figures.")
@click.option("--plot", "plot_path", type=click.Path(path_type=Path), help="A picture of pages.")
def main(
    smoke: bool, directory: Path | None, json_path: Path | None, plot_path: Path | None
) -> None:
    size = SMOKE_SIZE if smoke else SIZE
    click.echo(f"indexes of {size:,} bytes, {LOOKUPS:,} lookups a round, best of {ROUNDS}")
    with tempfile.TemporaryDirectory(dir=directory) as place, one_core():
        paths = write_indexes(Path(place), size)
        times = list(timings(paths))
        for timing in times:
            click.echo(
                f"{timing.index} index, {timing.where}: {timing.ours:.2f} us, "
                f"plain {timing.plain:.2f} us ({timing.plain / timing.ours:.1f} x)"
            )
        singles, grown = list[Pages](), list[Growth]()
        try:
            singles, grown = list(pages(paths[0])), list(growth(paths[0]))
        except NotOnDiskError as error:
            click.echo(f"pages are not counted: {error}")
    for each in singles:
        click.echo(
            f"nothing in memory, {each.where}: {each.ours:.1f} pages and "
            f"{each.ours_microseconds:.0f} us, plain {each.plain:.1f} pages and "
            f"{each.plain_microseconds:.0f} us, least {each.least:.0f} page"
        )
    if grown:
        first, last = grown[0], grown[-1]
        click.echo(
            f"at the end of an index that grows from {first.entries:,} to {last.entries:,} "
            f"entries: {last.ours} pages read, plain {last.plain}, "
            f"appended {(last.entries - first.entries) * OFFSET_ENTRY.size // PAGE}"
        )
    if json_path is not None:
        figures: dict[str, Sequence[Any]] = {"times": times, "pages": singles, "growth": grown}
        found = {name: [asdict(each) for each in some] for name, some in figures.items()}
        json_path.write_text(json.dumps(found))
    if plot_path is not None and grown:
        plot(grown, singles, plot_path)


if __name__ == "__main__":
    main()
