"""Drives a kernel through windows, and records all its results.

Two kernels are equal if their traces are. Each call gets its own buffer with the window and guard
bytes around it. A kernel that reads or writes the guard bytes, or makes no progress, fails here.

Not here: the data (raw.py)."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import cycle
from typing import Any, Literal

from records.formats import PREFIX, V2
from records.kernel import ROW_FIELDS, ROW_SIZE, UNKNOWN, Outcome, Recodes, Transcoder
from records.record import ROW
from records.units import KiB, MiB

GUARD_SIZE = 32
POSITIONS = [ROW_FIELDS.index(name) for name in ("key_at", "value_at", "headers_at")]


@dataclass(frozen=True, slots=True)
class Entered:
    """The place entered before the first call: the records of a batch, or entries of a message."""

    header: bytes | None = None  # of the batch
    to_magic: int = 1  # for entries, as the two that follow
    offset_delta: int = 0
    append_time: int | None = None
    wrapper: bool = False
    trim: bool = False
    split_at_gaps: bool = False

    @property
    def recodes(self) -> Recodes:
        return Recodes(trim=self.trim, split_at_gaps=self.split_at_gaps)

    def enter(self, transcoder: Transcoder) -> None:
        if self.header is not None:
            transcoder.enter_batch(self.header, 0, self.wrapper)
        else:
            how = self.append_time, self.wrapper
            transcoder.enter_entries(self.to_magic, self.offset_delta, *how)


@dataclass(frozen=True, slots=True)
class Job:
    """A task for a kernel, and its windows."""

    work: Literal["transcode", "measure", "columns"] = "transcode"
    to_magic: int = 1
    first_offset: int = 0
    pass_codecs: int = 0xFF
    stop_transactional: bool = False
    entered: Entered | None = None  # None for a log
    windows: Sequence[int] = (MiB,)  # bytes that arrive each time that more are asked for
    rooms: Sequence[int] = (64 * KiB,)  # bytes of each call's target
    allows: Sequence[bool] = (True,)  # what is decided each time that a decision is due
    overlong: bool = False  # the last window goes on behind what remains
    handles_large: bool = False  # what is not whole in the window the caller converts itself

    def whole(self) -> "Job":
        """The same task in one window, with all possible room."""
        return replace(self, windows=(MiB,), rooms=(64 * KiB,))


@dataclass(slots=True)
class Trace:
    """All results of a kernel."""

    steps: list[tuple[Any, ...]] = field(default_factory=list)
    output: bytearray = field(default_factory=bytearray)
    produced: int = 0
    reached: int = 0
    outcome: Outcome = Outcome.END
    damage: tuple[str, int] | None = None  # with the position in the data
    state: tuple[Any, ...] = ()  # at last


def trace(make: type[Transcoder], job: Job, data: bytes, *, guard: int = 0) -> Trace:
    """`data` is what is entered, or a log; `guard` is the byte that stands around each window."""
    return _Drive(make, job, data, guard).run()


class _Drive:
    def __init__(self, make: type[Transcoder], job: Job, data: bytes, guard: int) -> None:
        recodes = None if job.entered is None else job.entered.recodes
        self.transcoder = make(
            job.to_magic, job.first_offset, job.pass_codecs, job.stop_transactional, recodes
        )
        if job.entered is not None:
            job.entered.enter(self.transcoder)
        self.job = job
        self.data = data
        self.guard = bytes([guard]) * GUARD_SIZE
        self.start = 0  # position in the data
        self.arrived = 0
        self.windows, self.rooms, self.allows = map(cycle, (job.windows, job.rooms, job.allows))
        self.room = next(self.rooms)
        self.allowed_at = -1
        self.trace = Trace()

    def run(self) -> Trace:
        # Each byte of the data is at most once what a window, a target or a decision waits for.
        for _ in range(8 * len(self.data) + 64):
            outcome = self._call()
            self.trace.reached = self.start
            self.trace.outcome = outcome
            if outcome == Outcome.DAMAGE:
                before = self.trace.damage
                assert self._call() == Outcome.DAMAGE
                assert self.trace.steps[-1][:2] == (0, 0)
                assert self.trace.damage == before
                assert before is not None
                assert before[1] == self.start
            if outcome in (Outcome.DAMAGE, Outcome.END):
                self.trace.state = self._state()
                return self.trace
            self._go_on(outcome)
        raise AssertionError("the kernel makes no progress")

    def _call(self) -> Outcome:
        job, trace, transcoder = self.job, self.trace, self.transcoder
        source, end, remaining = self._window()
        window = (source, GUARD_SIZE, end, remaining)
        if job.work == "measure":
            consumed, produced, number = transcoder.measure(*window, self.room)
        else:
            target = bytearray(2 * GUARD_SIZE + self.room)
            call = transcoder.transcode if job.work == "transcode" else transcoder.columns
            room = (GUARD_SIZE, GUARD_SIZE + self.room)
            consumed, produced, number = call(*window, target, *room)
            assert not any(target[:GUARD_SIZE]), "bytes before the target are written"
            assert not any(target[-GUARD_SIZE:]), "bytes behind the target are written"
            output = bytes(target[GUARD_SIZE : GUARD_SIZE + produced])
            trace.output += self._positioned(output) if job.work == "columns" else output
        assert 0 <= consumed <= remaining
        assert 0 <= produced <= self.room
        outcome = Outcome(number)
        damage = transcoder.damage
        assert (damage is not None) == (outcome == Outcome.DAMAGE)
        trace.damage = damage and (damage[0], damage[1] - GUARD_SIZE + self.start)
        trace.steps.append((consumed, produced, outcome, trace.damage, *self._state()))
        trace.produced += produced
        self.start += consumed
        self.arrived = max(self.arrived, self.start)
        return outcome

    def _window(self) -> tuple[bytes, int, int]:
        """A buffer, where the window in it ends, and the bytes that remain.

        The end of a log is known; that of decompressed bytes is not before they have arrived."""
        window = self.data[self.start : self.arrived]
        remaining = max(len(self.data) - self.start, 0)
        if self.job.entered is not None and self.arrived < len(self.data):
            remaining = UNKNOWN
        source = self.guard + window + self.guard
        has_all = self.arrived == len(self.data)
        end = len(source) if self.job.overlong and has_all else GUARD_SIZE + len(window)
        return source, end, remaining

    def _positioned(self, rows: bytes) -> bytes:
        """Rows with positions in the data, not in the buffer."""
        moved = bytearray()
        for at in range(0, len(rows), ROW_SIZE):
            row = list(ROW.unpack_from(rows, at))
            for index in POSITIONS:
                row[index] += self.start - GUARD_SIZE
            moved += ROW.pack(*row)
        return bytes(moved)

    def _state(self) -> tuple[Any, ...]:
        t = self.transcoder
        return (t.totals, t.wrapper, t.last_offset, t.in_batch, t.append_time)

    def _go_on(self, outcome: Outcome) -> None:
        """Gives the kernel the requested window, room or decision."""
        if outcome == Outcome.SOURCE:
            assert self.arrived < len(self.data), "more is asked for than there is"
            if not self._handle():
                self.arrived = min(self.arrived + next(self.windows), len(self.data))
        elif outcome == Outcome.TARGET:
            progress = self.trace.steps[-1][1]
            self.room = next(self.rooms) if progress else 2 * self.room + 8
        elif outcome == Outcome.GAP:
            self.transcoder.start_wrapper()
        elif self.allowed_at != self.start and next(self.allows):
            self.allowed_at = self.start
            self.transcoder.accept_next_entry()
        else:
            self.transcoder.leave()
            self.start += PREFIX.size + PREFIX.unpack_from(self.data, self.start)[1]
            self.arrived = max(self.arrived, self.start)

    def _handle(self) -> bool:
        """Converts the record at hand for the kernel, if asked for and its head is there."""
        if not self.transcoder.in_batch or self.job.to_magic == V2:
            return False
        source, end, remaining = self._window()
        head = self.transcoder.record_head(source, GUARD_SIZE, end, remaining)
        self.trace.steps.append((head, self.transcoder.damage))
        if head is None or not self.job.handles_large:
            return False
        offset, timestamp, size, _, _ = head
        if size > len(self.data) - self.start:
            return False
        kept = offset >= self.job.first_offset
        self.transcoder.record_converted(size, offset, timestamp, size + 20 if kept else 0)
        self.start += size
        self.arrived = max(self.arrived, self.start)
        return True
