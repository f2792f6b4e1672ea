"""Options of a stream that vary together: wherever a log is kept, its micro-batches together are
the log from where the stream begins."""

import random
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from downconvert.spark.stream.stream import SegmentStreamReader

from .log_places import ABORTED, EVERYTHING, PLACES
from .stream.test_follow import Limit, read, stream
from .test_options_together import at

pytestmark = pytest.mark.usefixtures("store_of_this_machine")

OFFSETS: Final = [row["offset"] for row in EVERYTHING]


class Case(NamedTuple):
    """Options that stay the same while the start varies."""

    place: str
    limit: str
    committed: bool
    verify: bool
    mode: str
    is_final: bool

    @property
    def options(self) -> dict[str, Any]:
        return {
            "isolation": "read_committed" if self.committed else "read_uncommitted",
            "verifyCrc": str(self.verify).lower(),
            "mode": self.mode,
        }

    @property
    def limits(self) -> Limit:
        """The limit of one micro-batch. It reads one batch at least."""
        return {
            "none": Limit(),
            "offsets": Limit(max_rows=3),
            "bytes": Limit(max_bytes=250),
        }[self.limit]


def cases() -> list[Case]:
    """Each place with each limit, and other options by chance, but always the same ones."""
    chance = random.Random(25)
    return [
        Case(
            place,
            limit,
            chance.random() < 0.5,
            place == "with_a_damaged_copy" or chance.random() < 0.5,
            chance.choice(["FAILFAST", "PERMISSIVE", "DROPMALFORMED"]),
            chance.random() < 0.5,
        )
        for place in PLACES
        for limit in ("none", "offsets", "bytes")
    ]


@pytest.mark.parametrize("case", cases(), ids=lambda case: "-".join(map(str, case)))
def test_micro_batches_together_are_the_rest_of_a_log(tmp_path: Path, case: Case) -> None:
    path = PLACES[case.place](tmp_path)
    for start in (0, 3, 9, 16, 24, 29):
        source = stream(path, startingOffsets=at(start), **case.options)
        if case.is_final:
            source.prepareForTriggerAvailableNow()
        wanted = [
            offset
            for offset in OFFSETS
            if offset >= start and not (case.committed and offset in ABORTED)
        ]
        assert sorted(all_of(source, case)) == wanted, start
        source.stop()


def all_of(source: SegmentStreamReader, case: Case) -> list[int]:
    """The offsets of all micro-batches."""
    found: list[int] = []
    begun = source.initialOffset()
    while (after := source.latestOffset(begun, case.limits)) != begun:
        some = read(source, begun, after)
        assert case.limit != "offsets" or len(some) <= 3
        found += (int(one.partition(":")[2]) for one in some)
        begun = after
    return found
