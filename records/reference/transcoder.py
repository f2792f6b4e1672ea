"""The reference's `Transcoder` (kernel.py): its public methods.

Not here: the rules (log.py, inside.py)."""

import copy
from typing import Final, TypeAlias

from records.formats import BATCH_HEADER_SIZE, V0, V1, V2, Codec
from records.kernel import UNKNOWN, Buffer, Outcome, Progress, Recodes, Transferred

from . import inside, log
from .call import Call, Damaged, Room, Stop, Target, Window
from .places import Batch, Entries, Header
from .recode import NotAtOnce, Recode, recode
from .state import State
from .transfer import Transfer, measure_from

Damage: TypeAlias = tuple[str, int]

NO_MAGIC_2: Final = "records of a batch become no messages of magic 2"


class Transcoder:
    """See `Transcoder` in kernel.py."""

    def __init__(
        self, to_magic: int, first_offset: int, pass_codecs: int, stop_transactional: bool
    ) -> None:
        if to_magic not in (V0, V1, V2):
            raise ValueError("to_magic is not 0, 1 or 2")
        self._state = State(to_magic, first_offset, pass_codecs, stop_transactional)
        self._damage: Damage | None = None

    # --- where it stands

    def enter_batch(
        self, header: Buffer, at: int, wrapper: bool, trim: bool, split_at_gaps: bool
    ) -> None:
        if not 0 <= at <= len(header) - BATCH_HEADER_SIZE:
            raise ValueError("the header is not whole in the buffer")
        self._enter(
            Batch.decompressed(
                Header.read(header, at),
                self._state.to_magic,
                wrapper=wrapper,
                trim=trim,
                split_at_gaps=split_at_gaps,
            )
        )

    def enter_entries(
        self,
        to_magic: int,
        offset_delta: int,
        append_time: int | None,
        wrapper: bool,
        trim: bool,
        split_at_gaps: bool,
    ) -> None:
        if to_magic not in (V0, V1):
            raise ValueError("to_magic is not 0 or 1")
        self._enter(
            Entries(
                to_magic=to_magic,
                append_time=append_time,
                trim=trim,
                is_wrapper=wrapper,
                split_at_gaps=split_at_gaps,
                source_size=0,
                has_kept=False,
                offset_delta=offset_delta,
            )
        )

    def _enter(self, place: Batch | Entries) -> None:
        self.leave()
        self._state.place = place
        self._state.account.start_batch()
        self._state.account.start_wrapper()

    def start_wrapper(self) -> None:
        self._state.account.start_wrapper()

    def allow_next(self) -> None:
        self._state.is_allowed = True

    def leave(self) -> None:
        self._state.place = None
        self._state.is_allowed = False

    # --- what it does

    def transcode(
        self,
        source: Buffer,
        start: int,
        end: int,
        remaining: int,
        target: Buffer,
        at: int,
        limit: int,
    ) -> Progress:
        room = Target(target, at, limit, source)
        return self._run(Call(Window(source, start, end, remaining), room, wants_rows=False))

    def measure(self, source: Buffer, start: int, end: int, remaining: int, room: int) -> Progress:
        window = Window(source, start, end, remaining)
        return self._run(Call(window, Room(room), wants_rows=False))

    def columns(
        self,
        source: Buffer,
        start: int,
        end: int,
        remaining: int,
        target: Buffer,
        at: int,
        limit: int,
    ) -> Progress:
        room = Target(target, at, limit, source)
        return self._run(Call(Window(source, start, end, remaining), room, wants_rows=True))

    def _run(self, call: Call) -> Progress:
        """Takes items until one cannot be taken. That item changes nothing."""
        window, state = call.window, self._state
        if isinstance(state.place, Batch) and state.to_magic == V2 and not call.wants_rows:
            raise ValueError(NO_MAGIC_2)
        self._damage = None
        try:
            while True:
                if isinstance(state.place, Batch):
                    inside.take_record(state, call, state.place)
                elif isinstance(state.place, Entries):
                    inside.take_inner_entry(state, call, state.place)
                else:
                    log.take_entry(state, call)
        except Stop as stop:
            outcome = stop.outcome
        except Damaged as damaged:
            self._damage = (damaged.reason, window.at)
            outcome = Outcome.DAMAGE
        return window.at - window.start, call.target.produced, outcome

    def measure_from(
        self,
        source: int | Buffer,
        position: int,
        end: int,
        chunk_size: int,
        room: int,
        budget: int,
    ) -> Progress:
        self._check_stands_in_log()
        try:
            return measure_from(self, source, position, end, chunk_size, room, budget)
        finally:
            self._damage = None

    def _check_stands_in_log(self) -> None:
        """Checks that it stands in a log, or in an uncompressed batch of one that can become
        messages."""
        place = self._state.place
        if isinstance(place, Entries) or (place is not None and place.bytes_left == UNKNOWN):
            raise ValueError("it stands in what was entered")
        if isinstance(place, Batch) and self.to_magic == V2:
            raise ValueError(NO_MAGIC_2)

    def transfer(
        self,
        source: int | Buffer,
        position: int,
        end: int,
        chunk_size: int,
        channel: int,
        is_socket: bool,  # noqa: ARG002  (Python ignores SIGPIPE: write(2) serves for both)
        promised: int,
        budget: int,
        recodes: Recodes | None = None,
    ) -> Transferred:
        self._check_stands_in_log()
        limits = (position, end, chunk_size)
        transfer = Transfer(source, *limits, channel, promised, budget, recodes)
        try:
            return transfer.run(self)
        finally:
            self._damage = None

    def recode(
        self,
        source: Buffer,
        start: int,
        end: int,
        codec: int,
        fast: bool,
        trim: bool,
        split_at_gaps: bool,
        body_size_max: int,
        inner_size_max: int,
    ) -> bytes | None:
        if self._state.place is not None:
            raise ValueError("no entry of a log is next")
        if not Codec.GZIP <= codec < Codec.ZSTD:
            raise ValueError("older messages have no such codec")
        if body_size_max < 0 or inner_size_max < 0:
            raise ValueError("a size is negative")
        entry = Window(source, start, end, 0).source[start:end]
        how = (fast, trim, split_at_gaps, body_size_max, inner_size_max)
        return self._recode(entry, Recode(Codec(codec), *how))

    def recode_into(self, room: int, entry: Buffer, codec: int, how: Recodes) -> bytes | None:
        """Recodes for a transfer. None also if the messages are more than `room` bytes."""
        job = Recode(Codec(codec), *how[1:], made_size_max=room)
        return self._recode(memoryview(entry), job)

    def _recode(self, entry: memoryview, job: Recode) -> bytes | None:
        self._damage = None
        before = copy.deepcopy(self._state)
        try:
            return recode(self, entry, job)
        except NotAtOnce:
            self._state = before
            return None
        finally:
            self.leave()
            self._damage = None

    @property
    def stops_transactional(self) -> bool:
        return self._state.stop_transactional

    @property
    def to_magic(self) -> int:
        return self._state.to_magic

    @property
    def first_offset(self) -> int:
        return self._state.first_offset

    def count_entry(self, size: int) -> None:
        """Counts the entered entry, of so many bytes of the log."""
        place = self._state.place
        assert place is not None
        place.source_size = size

    def count_decompressed(self, size: int) -> None:
        """Counts the decompressed bytes of an entry."""
        self._state.account.decompressed_bytes += size

    def count_wrapper(self, size: int) -> None:
        """Counts the bytes of a compressed message without the messages inside."""
        self._state.account.produced_bytes += size

    # --- items that the caller converts itself

    def record_head(
        self, source: Buffer, start: int, end: int, remaining: int
    ) -> tuple[int, int, int, int, int] | None:
        window = Window(source, start, end, remaining)
        batch = self._state.place
        if not isinstance(batch, Batch):
            raise ValueError("no record of a batch is next")
        if self._state.to_magic == V2:
            raise ValueError(NO_MAGIC_2)
        self._damage = None
        try:
            return inside.record_head(self._state, window, batch)
        except Stop:
            return None
        except Damaged as damaged:
            self._damage = (damaged.reason, window.at)
            return None

    def record_converted(
        self, source_size: int, offset: int, timestamp: int, message_size: int
    ) -> None:
        place = self._state.place
        if place is None:
            raise ValueError("no record and no entry is next")
        if source_size < 0 or message_size < 0:
            raise ValueError("a size is negative")
        if isinstance(place, Batch):
            if place.records_left == 0 or source_size > place.bytes_left:
                raise ValueError("the batch has no such record left")
            place.pass_record(source_size)
        if message_size:
            self._state.account.keep(place, offset, timestamp, message_size)

    # --- its state, for the caller

    @property
    def damage(self) -> Damage | None:
        return self._damage

    @property
    def in_batch(self) -> bool:
        place = self._state.place
        return isinstance(place, Batch) and place.records_left > 0

    @property
    def append_time(self) -> int | None:
        return None if self._state.place is None else self._state.place.append_time

    @property
    def totals(self) -> tuple[int, int, int, int, int]:
        return self._state.account.totals

    @property
    def decompressed(self) -> int:
        return self._state.account.decompressed_bytes

    @property
    def wrapper(self) -> tuple[int, int, int, int, int]:
        return self._state.account.wrapper

    @property
    def last_offset(self) -> int:
        last_offset = self._state.account.last_offset
        return -1 if last_offset is None else last_offset
