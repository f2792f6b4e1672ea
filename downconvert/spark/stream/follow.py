"""Follows growing logs: finds the offsets up to which they can be read, and the bytes up to there.

The result does not depend on the files. While a stream follows logs, segments are rolled, deleted
and cleaned, and partitions come and go. Logs are also truncated. So an offset is stored with the
leader epoch of the record before it (places.py): the same offset in another epoch is another
record.

The result does not depend on the order of copying either. If offsets are missing between segments,
and one of the segments is new, a stream waits for the offsets for a limited time (gaps.py).

Not here: the logs themselves (followed_logs.py), Spark's interface (stream.py), reading (rows.py,
batches.py)."""

import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TypeAlias, TypeVar

from downconvert.spark.errors import DataLossError, SegmentChangedError
from downconvert.spark.logs.places import Place, Places, Wait
from downconvert.spark.logs.splits import Split
from downconvert.spark.options.options import Options
from downconvert.spark.plan.gaps import Gap
from downconvert.spark.stores.attempts import GONE
from downconvert.spark.stores.parallel import in_parallel
from downconvert.storage.names import TopicPartition
from records.batch import NONE

from .followed_logs import FollowedLog, FollowedLogs

Made = TypeVar("Made")
Offsets: TypeAlias = dict[TopicPartition, int]


class LogFollower:
    """The partitions that the options select, as of the latest `refresh`."""

    def __init__(self, options: Options, logs: FollowedLogs) -> None:
        self._options = options
        self._logs = logs
        self._current: dict[TopicPartition, FollowedLog] = {}
        self._ends: Offsets | None = None
        self._stuck: list[str] = []  # gaps that keep a stream from ending
        self._turn = 0  # rotates which partition is read first if a limit does not allow all

    def refresh(self) -> Offsets:
        """Looks for partitions; returns the offset up to which each can be read now."""
        found = self._logs.refresh()
        self._current = {name: log for name, (log, _) in found.items()}
        self._ends = {name: end for name, (_, end) in found.items()}
        return dict(self._ends)

    def known(self) -> Offsets:
        """As `refresh`. Returns the latest result again if a refresh would need requests to a
        store."""
        if self._ends is None or not self._logs.costs:
            return self.refresh()
        return dict(self._ends)

    def initial(self) -> Places:
        """The places at which the options begin."""
        self.refresh()
        return self._with_relisting(self._initial)

    def _initial(self) -> Places:
        ends = self._ends or {}
        return self.placed({name: self._current[name].starting(end) for name, end in ends.items()})

    def placed(self, offsets: Offsets, before: Places | None = None) -> Places:
        """Offsets with the leader epochs of the records before them. `before`: earlier places, for
        records that may have been deleted or compacted since."""
        places: Places = {}
        for name, offset in offsets.items():
            log = self._current.get(name)
            known = (before or {}).get(name)
            place = Place(offset) if log is None else _place_in(log, offset)
            if known is not None and known.is_of(place.topic_id):
                # a copy may be without its id for a while: partition.metadata comes after the logs
                place = place._replace(topic_id=place.topic_id or known.topic_id)
                if place.epoch == NONE and known.offset == offset:
                    place = place._replace(epoch=known.epoch)
            places[name] = place
        return places

    def latest(
        self,
        start: Places,
        ends: Offsets,
        *,
        offsets_max: int | None = None,
        bytes_max: int | None = None,
        is_final: bool = False,
    ) -> Places:
        """The places up to which to read from `start`: `ends`, or less because of a limit, or
        because missing offsets may still be copied. `is_final`: the stream ends when it has read
        everything. It does not wait for such offsets, so they count as missing. DataLossError.

        The first batch is read even if it is larger than the limit."""
        try:
            return self._with_relisting(
                partial(self._latest, start, ends, offsets_max, bytes_max, is_final)
            )
        except GONE as error:
            self._lost(_why_lost(error))
            return start

    def _latest(
        self,
        start: Places,
        ends: Offsets,
        offsets_max: int | None,
        bytes_max: int | None,
        is_final: bool,
    ) -> Places:
        limits = self._ends or {}
        ends = {name: min(end, limits[name]) for name, end in ends.items() if name in limits}
        for name, place in start.items():
            if name not in self._current and self._options.takes(*name):
                self._lost(f"{name} is gone; it was read up to offset {place.offset}")
        starts = {name: self._start(name, start) for name in ends}
        ready = [name for name in sorted(ends) if starts[name] < ends[name]]
        reached = {name: place.offset for name, place in start.items()} | starts
        if offsets_max is not None:
            sizes = {name: ends[name] - starts[name] for name in ready}
            shares = shared_out(offsets_max, sizes, self._turn)
            reached |= {name: starts[name] + share for name, share in shares.items()}
        elif bytes_max is not None:
            self._turn_to_next(ready)
            reached |= self._within(bytes_max, ready, starts, ends)
        else:
            reached |= {name: ends[name] for name in ready}
        self._turn += 1
        waits = {name: place.wait for name, place in start.items() if reached[name] == place.offset}
        moved = [name for name in ends if reached[name] > starts[name]]
        self._stuck.clear()
        before_gap = self._before_gap if is_final else self._until_gap
        found = in_parallel(partial(before_gap, start, starts, reached), moved)
        for name, (offset, wait) in zip(moved, found, strict=True):
            reached[name], waits[name] = offset, wait
        if all(reached[name] <= starts[name] for name in moved):
            if self._stuck:
                raise DataLossError(self._stuck[0])
            if is_final:
                self._check_ends(name for name in ends if reached[name] >= ends[name])
        placed = self.placed(reached, start)
        return {name: place._replace(wait=waits.get(name)) for name, place in placed.items()}

    def splits(self, start: Places, end: Places) -> Iterator[Split]:
        """The splits with the offsets from `start` up to `end`."""
        ends = self.known()
        if self._logs.costs and any(one.offset > ends.get(name, 0) for name, one in end.items()):
            self.refresh()
        for name, place in sorted(end.items()):
            try:
                yield from self._with_relisting(partial(self._splits, name, start, place))
            except GONE as error:
                self._lost(_why_lost(error))

    def _check_ends(self, names: Iterable[TopicPartition]) -> None:
        """Checks that a stream that has read everything has reached the ends of logs.
        DataLossError."""
        for name in names:
            log = self._current[name]
            if log.end_offset <= (self._ends or {})[name] and log.is_damaged_at_end():
                self._lost(
                    f"{name} is damaged after offset {log.end_offset}, and what follows cannot be "
                    f"read from {log.directory}"
                )

    # --- one partition

    def _splits(self, name: TopicPartition, start: Places, place: Place) -> list[Split]:
        log, after = self._current.get(name), place.offset
        first = self._start(name, start)
        if first >= after:
            return []
        if log is None:
            self._lost(f"{name} is gone; it was read up to offset {first}")
            return []
        if not place.is_of(log.topic_id):
            self._lost(f"{name} was deleted and recreated after it was seen to go up to {after}")
            return []
        if log.end_offset < after:
            self._lost(f"{name} ends at {log.end_offset}, and was seen to go up to {after}")
        elif log.changed_from(place) is not None:
            self._lost(f"{name} was truncated before offset {after} after that was seen")
        return list(log.splits(first, after))

    def _start(self, name: TopicPartition, start: Places) -> int:
        """The offset at which reading continues. A new partition is read from its beginning, a
        truncated one from the first offset that differs from what was read."""
        log, place = self._current.get(name), start.get(name)
        if log is None:
            return 0 if place is None else place.offset
        first = log.start_offset
        if place is None:
            return first
        offset, end = place.offset, log.end_offset
        if not place.is_of(log.topic_id):
            self._lost(
                f"{name} was deleted and recreated after it was read up to offset {offset}: it has "
                f"the id {log.topic_id} now, and had {place.topic_id}"
            )
            return first
        if offset > end:
            self._lost(
                f"{name} ends at {end}, and was read up to {offset}: it was truncated, or "
                f"{log.directory} is a copy that is not up to date"
            )
            changed = log.changed_from(place._replace(offset=end))
            return max(first, end if changed is None else changed)
        if offset < first:
            self._lost(f"{name} begins at {first}; offsets from {offset} on were deleted unread")
            return first
        changed = log.changed_from(place)
        if changed is not None and log.epoch_of(offset) < place.epoch:
            self._lost(
                f"{name} was read up to {offset} in leader epoch {place.epoch}, and has epoch "
                f"{log.epoch_of(offset)} there: it was deleted and recreated, or {log.directory} "
                "is a copy that is not up to date"
            )
        elif changed is not None:
            self._lost(
                f"{name} was truncated at {changed} after it was read up to {offset} in leader "
                f"epoch {place.epoch}, and has been rewritten from there"
            )
        return offset if changed is None else max(first, changed)

    def _before_gap(
        self, _: Places, starts: Offsets, ends: Offsets, name: TopicPartition
    ) -> tuple[int, None]:
        """The offset up to which one of these partitions is read now, if the stream does not
        wait."""
        first, log = starts[name], self._current[name]
        since = 1_000_000 * (now() - self._options.gap_timeout_ms)
        while (gap := log.gap(first, ends[name], since)) is not None:
            what = (
                f"{name} has no records from offset {gap.start} up to {gap.end}, and a segment "
                "beside them is new: if they are still being copied, run the query again"
            )
            if self._options.fail_on_data_loss:
                if gap.start <= starts[name]:
                    self._stuck.append(what)
                return max(gap.start, starts[name]), None
            _warn(what)
            first = gap.end
        return ends[name], None

    def _until_gap(
        self, start: Places, starts: Offsets, ends: Offsets, name: TopicPartition
    ) -> tuple[int, Wait | None]:
        """The offset up to which one of these partitions is read now, and the wait there.

        A stream waits for all offsets that were missing when the wait began. Afterwards it reads up
        to the end that the log had at that time."""
        first, end, log = starts[name], ends[name], self._current[name]
        wait = start[name].wait if name in start else None
        timeout, time_now = self._options.gap_timeout_ms, now()
        if not timeout:
            return end, None
        passed: list[Gap] = []

        def found() -> Gap | None:
            """The gap that the stream waits for, even if its segments are no longer new; or else
            another gap."""
            waited = None if wait is None else log.gap(first, min(first + 1, end), 0)
            return waited or log.gap(first, end, 1_000_000 * (time_now - timeout))

        while (gap := found()) is not None:
            if wait is None or gap.end > wait.up_to:
                wait = Wait(time_now, max((self._ends or {})[name], gap.end))
                _warn(
                    f"{name} has no records from offset {gap.start} up to {gap.end} yet, and a "
                    f"segment beside them is new: for {timeout / 1000:g} s at most "
                    "(gapTimeoutMs) the stream waits for them"
                )
            if wait.since > time_now:  # the clock was set back
                wait = wait._replace(since=time_now)
            if time_now < wait.since + timeout:
                end = gap.start
                break
            passed.append(gap)
            first = gap.end
        if passed:
            more = f", nor in {len(passed) - 1} gaps after that" if passed[1:] else ""
            _warn(
                f"{name} has no records from offset {passed[0].start} up to {passed[0].end}{more}: "
                f"none came within {timeout / 1000:g} s, and reading goes on"
            )
        return end, wait if wait is not None and end < wait.up_to else None

    def _with_relisting(self, make: Callable[[], Made]) -> Made:
        """Calls `make`. If a log has changed since it was listed, lists the logs again and
        retries."""
        try:
            return make()
        except GONE:
            self.refresh()
            return make()

    def _lost(self, what: str) -> None:
        if self._options.fail_on_data_loss:
            raise DataLossError(what)
        _warn(what)

    # --- limits

    def _turn_to_next(self, ready: list[TopicPartition]) -> None:
        if ready:
            turn = self._turn % len(ready)
            ready[:] = ready[turn:] + ready[:turn]

    def _within(
        self, bytes_max: int, ready: list[TopicPartition], starts: Offsets, ends: Offsets
    ) -> Offsets:
        """The offsets up to which `bytes_max` bytes can be read. Bytes are shared evenly.
        Partitions that need less leave the rest to the others."""
        reached: Offsets = {}
        left = bytes_max
        for index, name in enumerate(ready):
            if left <= 0 and reached:
                break
            share = max(1, left // (len(ready) - index))
            log = self._current[name]
            reached[name], taken = log.advanced(starts[name], ends[name], share)
            left -= taken
        return reached


def _place_in(log: FollowedLog, offset: int) -> Place:
    return Place(offset, log.epoch_of(offset), topic_id=log.topic_id)


def now() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def _warn(what: str) -> None:
    warnings.warn(what, RuntimeWarning, stacklevel=3)


def _why_lost(error: OSError | SegmentChangedError) -> str:
    if isinstance(error, SegmentChangedError):
        return str(error)
    return f"{error.filename or error} was deleted after it was listed"


def shared_out(
    total: int, sizes: Mapping[TopicPartition, int], turn: int = 0
) -> dict[TopicPartition, int]:
    """Divides `total` in proportion to sizes. Partitions take turns at being rounded up."""
    whole = sum(sizes.values())
    if whole <= total:
        return dict(sizes)
    shares = {name: total * size // whole for name, size in sizes.items()}
    left = total - sum(shares.values())
    names = sorted(sizes)
    for index in range(len(names)):
        name = names[(turn + index) % len(names)]
        if left and shares[name] < sizes[name]:
            shares[name] += 1
            left -= 1
    return shares
