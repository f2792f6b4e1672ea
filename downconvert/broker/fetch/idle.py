"""Checks whether a partition is unchanged since a fetch found nothing in it.

A consumer of thousands of partitions repeatedly finds nothing new in most of them. If a partition's
state equals an earlier state in which nothing was found, the same request finds nothing now either.
The partition is then not read.

The state of a log written by this process is a few numbers. The state of a log written by another
process is the times and sizes of its files, so nothing is opened or read.

Not here: the partitions of a session (fetch_session.py), reading the others (fetch_reader.py)."""

import os
from collections.abc import Sequence
from struct import Struct
from typing import Final, TypeAlias

from downconvert.broker.partition import Partition
from downconvert.broker.topics import Topics
from downconvert.storage import StorageError
from downconvert.storage.names import LOG_STARTS
from records.backend import file_stamps
from records.kernel_functions import STAMP_SIZE

from .fetch_session import Context
from .session import Asked, Idle

# If a file changes twice within one tick of the file system's clock, the second change does not
# show. So a state is not remembered if the file was changed less than this ago. The coarsest clocks
# tick every 2 s.
SETTLED_AFTER: Final = 3_000_000_000  # nanoseconds

CHANGED: Final = Struct("<q16x")  # in a file's stamp: when the file was changed
UNKNOWN: Final = b"\xff" * STAMP_SIZE
# The stamps of a partition's directory and of its last segment's file.
BOTH_SIZE: Final = 2 * STAMP_SIZE
assert CHANGED.size == STAMP_SIZE

State: TypeAlias = tuple[object, ...]


class IdleStates:
    """The states of partitions at one moment. Each check needs a new object."""

    __slots__ = ("_now", "_starts", "_topics")

    def __init__(self, topics: Topics, now: float) -> None:
        """`now`: the time of day, in seconds since the epoch."""
        self._topics = topics
        self._now = int(now * 1e9)
        self._starts = b""  # the stamp of the file of start offsets, once it has been read

    def of(self, partitions: Sequence[Partition]) -> list[State]:
        """The states of partitions. One call reads the stamps of all files, because each of
        thousands of calls would wait for the interpreter's lock."""
        states = [partition.state() for partition in partitions]
        followed = [partition for partition in partitions if partition.is_followed]
        stamps = file_stamps([path for partition in followed for path in _files(partition)])
        starts = range(0, len(stamps), BOTH_SIZE)
        of_files = iter([stamps[start : start + BOTH_SIZE] for start in starts])
        return [
            self._of_followed(partition, next(of_files)) if state is None else state
            for partition, state in zip(partitions, states, strict=True)
        ]

    def new(self, partition: Partition) -> State | None:
        """A partition's state, for comparison with later ones. None: it is unknown, or the log is
        changing."""
        state = partition.state()
        if state is not None:
            return state
        try:
            if partition.log.offline_reason is not None:
                return None
            partition.tail = os.fsencode(partition.log.segments[-1].path())
        except (OSError, StorageError, IndexError):
            return None
        stamps = file_stamps(_files(partition))
        if UNKNOWN in (stamps[:STAMP_SIZE], stamps[STAMP_SIZE:]):
            return None
        changed = max(at for (at,) in CHANGED.iter_unpack(self._start_offsets() + stamps))
        return None if changed > self._now - SETTLED_AFTER else self._of_followed(partition, stamps)

    def _of_followed(self, partition: Partition, stamps: bytes) -> State:
        """The state of a partition whose log another process writes."""
        return (
            self._start_offsets(),
            stamps,
            partition.committed_end,
            partition.leader,
            partition.leader_epoch,
        )

    def _start_offsets(self) -> bytes:
        if not self._starts:
            path = self._topics.log_dir.path / LOG_STARTS
            self._starts = file_stamps([os.fsencode(path)])
        return self._starts


def _files(partition: Partition) -> list[bytes]:
    return [partition.directory, partition.tail]


class IdleLook:
    """One pass of a fetch over the partitions of its session. request: its version, and whether it
    reads only committed records. now: the time of day, in seconds since the epoch."""

    __slots__ = ("_is_session", "_request", "_skips", "_states", "_topics")

    def __init__(
        self,
        topics: Topics,
        context: Context,
        request: tuple[int, bool],
        now: float,
        *,
        is_follower: bool,
    ) -> None:
        self._topics = topics
        self._request = request
        self._states = IdleStates(topics, now)
        # No partition of a follower is skipped, because its fetches report its offsets.
        self._is_session = context.is_session and not is_follower
        self._skips = context.skips_idle and not is_follower

    def split(self, asked: list[Asked]) -> tuple[list[Asked], list[Asked]]:
        """Returns the partitions that must be read, and the idle ones: nothing was found in these
        before, and they have not changed."""
        if not self._skips:
            return asked, []
        before = [self._known(one) for one in asked]
        states = iter(self._states.of([known.partition for known in before if known is not None]))
        read: list[Asked] = []
        idle: list[Asked] = []
        for one, known in zip(asked, before, strict=True):
            is_idle = known is not None and next(states) == known.state
            (idle if is_idle else read).append(one)
        return read, idle

    def before(self, partition: Partition) -> Idle | None:
        """The state to remember if a read finds nothing. Must be called before the read. None:
        remember nothing."""
        state = self._states.new(partition) if self._is_session else None
        if state is None:
            return None
        return Idle(partition, self._request, state, partition.leader_epoch)

    def changed(
        self, asked: list[Asked], *, written_here: bool = False
    ) -> list[tuple[Asked, Idle]]:
        """The idle partitions that may have changed since. `written_here`: only checks logs that
        this process writes, which needs no system call."""
        looked_at = [
            (one, one.idle)
            for one in asked
            if one.idle is not None and not (written_here and one.idle.partition.is_followed)
        ]
        states = self._states.of([idle.partition for _, idle in looked_at])
        return [
            (one, idle)
            for (one, idle), state in zip(looked_at, states, strict=True)
            if state != idle.state
        ]

    def _known(self, asked: Asked) -> Idle | None:
        """The remembered result for a partition, if the partition and the kind of request are the
        same."""
        idle = asked.idle
        if idle is None or idle.request != self._request:
            return None
        found = self._topics.partition(asked.topic, asked.index)
        return idle if found is idle.partition else None
