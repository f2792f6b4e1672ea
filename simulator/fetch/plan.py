"""The plan of a simulation: the fetches with which a consumer reads the log once, and the bytes of
their responses.

A consumer's next fetch begins after the last record that it read. After a complete response, this
is the next batch. After a response that was cut off at a promised size, it is a record within a
batch. So fetches depend on responses. Therefore all responses are made once before the measurement.
Each lazy response is compared with the eager one, and is read like by an old client."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

import xxhash

from downconvert.cli.advice import advice
from records import (
    CorruptRecordsError,
    UnsupportedCodecError,
)
from simulator.collector import Collector
from simulator.delivered import delivered
from simulator.modes import Mode

from .fetches import BatchIndex, Fetch
from .options import Options
from .responses import Responses

Progress = Callable[[int], None]

_STUCK: Final = "no record fits in what is promised, and a consumer never gets past that"


class Response(NamedTuple):
    """The response that a fetch must get."""

    size: int  # bytes, as promised
    digest: bytes
    records: int  # that a client reads, from the requested offset on
    converted: int  # records
    filler: int  # bytes


class Ending(NamedTuple):
    """Where reading a file ends early: at damage, or at a refused batch."""

    position: int
    why: str


@dataclass(slots=True)
class Plan:
    """The fetches of one mode, their responses, and the errors found while planning."""

    fetches: list[Fetch] = field(default_factory=list)
    responses: list[Response] = field(default_factory=list)
    different: int = 0  # responses whose lazy bytes differ from the eager conversion
    broken: int = 0  # promises
    unlike_eager: int = 0  # responses that differ from the bytes that eager conversion sends
    endings: dict[int, Ending] = field(default_factory=dict)  # of files that end early
    is_compressed: bool = False  # whether any batch of the log is compressed

    @property
    def records(self) -> int:
        return sum(response.records for response in self.responses)

    @property
    def converted(self) -> int:
        """Records."""
        return sum(response.converted for response in self.responses)

    @property
    def filler(self) -> int:
        """Bytes."""
        return sum(response.filler for response in self.responses)

    def beginning(self, fetches: int) -> "Plan":
        """The first few fetches and their responses, and nothing else."""
        return Plan(self.fetches[:fetches], self.responses[:fetches])


def make_plan(
    mode: Mode,
    paths: Sequence[Path],
    options: Options,
    endings: Mapping[int, Ending] = MappingProxyType({}),
    progress: Progress = lambda _: None,
) -> Plan:
    """Plans a consumer's way through all files. `progress` is called with the bytes of the log so
    far. `endings`: of files that ended early in another mode."""
    plan = Plan(endings=dict(endings))
    done = 0
    with Responses(mode, paths, options) as responses:
        for file, records in enumerate(responses.files):
            index = BatchIndex(records)
            plan.is_compressed |= index.is_compressed
            if index.damage is not None:
                plan.endings.setdefault(file, _ending(index.damage))
            if file in plan.endings:
                index.end_before(plan.endings[file].position)
            for position in _scan(plan, responses, file, index, options.max_bytes):
                progress(done + position)
            done += index.size
    return plan


def _scan(
    plan: Plan, responses: Responses, file: int, index: BatchIndex, max_bytes: int
) -> Iterator[int]:
    """Adds the fetches of one file and their responses. Yields the position after each."""
    response = _RESPONSES[responses.mode]
    batch, first_offset = 0, 0
    while batch < len(index):
        end = index.cut(batch, max_bytes)
        fetch = index.fetch(file, batch, end, first_offset)
        try:
            read_on = response(plan, responses, fetch)
        except (CorruptRecordsError, UnsupportedCodecError) as error:
            plan.endings[file] = _ending(error)
            index.end_before(min(error.position, fetch.position + fetch.size - 1))
            continue  # a control batch, or a batch that was fetched with earlier ones
        plan.fetches.append(fetch)
        if read_on is None:
            batch, first_offset = end, index.last_offset(end - 1) + 1
        elif read_on > first_offset:
            batch, first_offset = index.at_offset(read_on, batch), read_on
        else:
            plan.endings[file] = Ending(fetch.position, f"{_STUCK}, at byte {fetch.position}")
            return
        yield fetch.position + fetch.size


def _ending(error: CorruptRecordsError | UnsupportedCodecError) -> Ending:
    return Ending(error.position, f"{error}{advice(error)}")


def digest(data: bytes | bytearray | memoryview) -> bytes:
    """The digest of a whole response. Consumers update the same digest while they read."""
    return xxhash.xxh3_128_digest(data)


def _converted(plan: Plan, responses: Responses, fetch: Fetch) -> int | None:
    """Adds the response to a converted fetch. Returns the offset to continue from, or None if
    everything was sent."""
    whole = responses.eager(fetch)
    lazy = responses.lazy(fetch)
    send, sent = lazy.to_send(), Collector()
    while not send.completed:
        send.write_to(sent)
    if lazy.damage is not None:
        raise lazy.damage
    stats = send.stats
    content = memoryview(sent.data)[: len(sent.data) - stats.filler_bytes]
    plan.different += content != memoryview(whole)[: len(content)]
    plan.broken += len(sent.data) != lazy.size
    plan.unlike_eager += sent.data != whole
    records, last_offset = delivered(content, fetch.first_offset)
    plan.responses.append(
        Response(lazy.size, digest(sent.data), records, stats.records_converted, stats.filler_bytes)
    )
    if len(content) == len(whole):
        return None
    return last_offset + 1 if delivered(whole, last_offset + 1)[0] else None


def _raw(plan: Plan, responses: Responses, fetch: Fetch) -> None:
    """Adds the response to an unconverted fetch."""
    data = bytearray(fetch.size)
    responses.records(fetch).read_into(memoryview(data), 0)
    records, _ = delivered(data, fetch.first_offset)
    plan.responses.append(Response(fetch.size, digest(data), records, 0, 0))


def _whole(plan: Plan, responses: Responses, fetch: Fetch) -> None:
    """Adds the whole response to a fetch that is converted before it is sent."""
    data = responses.eager(fetch)
    records, _ = delivered(data, fetch.first_offset)
    converted, _ = delivered(data, 0)
    plan.responses.append(Response(len(data), digest(data), records, converted, 0))


_RESPONSES: Final[dict[Mode, Callable[[Plan, Responses, Fetch], int | None]]] = {
    "lazy": _converted,
    "eager": _whole,
    "zero-copy": _raw,
}
