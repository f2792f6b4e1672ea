"""Whether a partition is as it was when a fetch found nothing in it.

A consumer of thousands of partitions finds nothing new in most of them, again and again. A
partition whose state is equal to a state in which nothing was found holds nothing for the same
request now, and needs no other look.

The state of a log that this process writes is a few numbers. That of a log that another process
writes is the times and sizes of its files, so that nothing is opened or read.

Not here: the partitions of a session (fetch_session.py), reading the others (fetch_reader.py)."""

import os
from collections.abc import Iterator
from typing import Final

from downconvert.storage import StorageError
from downconvert.storage.names import LOG_STARTS

from .fetch_session import Asked, Context, Idle
from .partition import Partition
from .topics import Topics

# The second of two changes within one tick of a file system's clock does not show. So a file that
# was changed less than this ago is not taken for unchanged; the coarsest clocks tick every 2 s.
SETTLED_AFTER: Final = 3_000_000_000  # nanoseconds


class IdleStates:
    """The states of partitions at one moment. Made anew for each look."""

    __slots__ = ("_now", "_starts", "_topics")

    def __init__(self, topics: Topics, now: float) -> None:
        """`now`: seconds since the epoch."""
        self._topics = topics
        self._now = int(now * 1e9)
        self._starts: tuple[int, ...] | None = None  # of the start offsets' file

    def of(self, partition: Partition, *, is_new: bool = False) -> tuple[object, ...] | None:
        """A partition's state; None: that cannot be told, or it is changing. `is_new`: it is to be
        compared with later ones."""
        state = partition.state()
        if state is not None:
            return state
        try:
            if is_new and partition.log.offline_reason is not None:
                return None
            if is_new:
                partition.tail = str(partition.log.segments[-1].path())
            starts, directory = self._start_offsets(), _stamp(partition.directory)
            tail = _stamp(partition.tail)
        except (OSError, StorageError, IndexError):
            return None
        if is_new and max(starts[0], directory[0], tail[0]) > self._now - SETTLED_AFTER:
            return None
        return (
            starts,
            directory,
            tail,
            partition.committed_end,
            partition.leader,
            partition.leader_epoch,
        )

    def _start_offsets(self) -> tuple[int, ...]:
        if self._starts is None:
            try:
                self._starts = _stamp(str(self._topics.log_dir.path / LOG_STARTS))
            except FileNotFoundError:
                self._starts = (0, 0, 0)
        return self._starts


def _stamp(path: str) -> tuple[int, int, int]:
    found = os.stat(path)  # noqa: PTH116 - a Path takes twice as long, for thousands of files
    return found.st_mtime_ns, found.st_size, found.st_ino


class IdleLook:
    """One pass of a fetch over the partitions of its session. request: its version, and whether it
    reads what is committed only. now: seconds since the epoch."""

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
        # A follower's fetch says what it has: each of its partitions is looked at.
        self._is_session = context.is_session and not is_follower
        self._skips = context.skips_idle and not is_follower

    def split(self, asked: list[Asked]) -> tuple[list[Asked], list[Asked]]:
        """Those that have to be read; and those that are idle: nothing was found in them before,
        and nothing has happened to them since."""
        if not self._skips:
            return asked, []
        read: list[Asked] = []
        idle: list[Asked] = []
        for one in asked:
            (idle if self._is_idle(one) else read).append(one)
        return read, idle

    def before(self, partition: Partition) -> Idle | None:
        """What to remember if a read finds nothing; to be called before it. None: nothing."""
        state = self._states.of(partition, is_new=True) if self._is_session else None
        if state is None:
            return None
        return Idle(partition, self._request, state, partition.leader_epoch)

    def changed(
        self, asked: list[Asked], *, written_here: bool = False
    ) -> Iterator[tuple[Asked, Idle]]:
        """Of those that were idle, the ones that may not be idle any more; `written_here`: only of
        logs that this process writes, which costs no call of the system."""
        for one in asked:
            idle = one.idle
            if idle is None or (written_here and not idle.partition.log.is_writable):
                continue
            if self._states.of(idle.partition) != idle.state:
                yield one, idle

    def _is_idle(self, asked: Asked) -> bool:
        idle = asked.idle
        if idle is None or idle.request != self._request:
            return False
        if self._topics.partition(asked.topic, asked.index) is not idle.partition:
            return False
        return self._states.of(idle.partition) == idle.state
