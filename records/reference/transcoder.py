"""The reference's `Transcoder` (kernel.py): its public methods.

Not here: the rules (log.py, inside.py)."""

import copy
import sys
from typing import Final, TypeAlias

from records.formats import BATCH_HEADER_SIZE, CODEC_MASK, V0, V1, V2, Codec
from records.kernel import UNKNOWN, Advanced, Buffer, Outcome, Progress, Recodes

from . import inside, log
from .advance import Advance
from .call import Call, Damaged, Room, Stop, Target, Window
from .places import Batch, Entries, Header
from .recode import NotAtOnce, recode
from .state import State

Damage: TypeAlias = tuple[str, int]

NO_MAGIC_2: Final = "records of a batch become no messages of magic 2"


class Transcoder:
    """See `Transcoder` in kernel.py."""

    def __init__(
        self,
        to_magic: int,
        first_offset: int,
        pass_codecs: int,
        stop_transactional: bool,
        recodes: Recodes | None = None,
    ) -> None:
        if to_magic not in (V0, V1, V2):
            raise ValueError("to_magic is not 0, 1 or 2")
        recodes = recodes or Recodes()
        if len(recodes.codecs) > CODEC_MASK + 1:
            raise ValueError("there are no more than eight codecs")
        if min(recodes.body_size_max, recodes.inner_size_max) < 0:
            raise ValueError("a size is negative")
        self._state = State(to_magic, first_offset, pass_codecs, stop_transactional, recodes)
        self._damage: Damage | None = None

    # --- its place

    def enter_batch(self, header: Buffer, at: int, is_wrapper: bool = False) -> None:
        if not 0 <= at <= len(header) - BATCH_HEADER_SIZE:
            raise ValueError("the header is not whole in the buffer")
        read, to_magic = Header.read(header, at), self._state.to_magic
        self._enter(Batch.of(read, to_magic, is_wrapper=is_wrapper, in_log=False))

    def enter_entries(
        self, to_magic: int, offset_delta: int, append_time: int | None, is_wrapper: bool = False
    ) -> None:
        if to_magic not in (V0, V1):
            raise ValueError("to_magic is not 0 or 1")
        self._enter(Entries(to_magic, append_time, is_wrapper, 0, offset_delta))

    def _enter(self, place: Batch | Entries) -> None:
        self.leave()
        self._state.place = place
        self._state.account.start_batch()
        self._state.account.start_wrapper()

    def start_wrapper(self) -> None:
        self._state.account.start_wrapper()

    def accept_next_entry(self) -> None:
        self._state.is_accepted = True

    def leave(self) -> None:
        self._state.place = None
        self._state.is_accepted = False

    # --- conversion

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

    def advance(
        self,
        source: int | Buffer,
        position: int,
        end: int,
        chunk_size: int,
        target: int,
        is_socket: bool,  # noqa: ARG002  (Python ignores SIGPIPE: write(2) serves for both)
        room: int,
        budget: int,
    ) -> Advanced:
        place = self._state.place
        if isinstance(place, Entries) or (place is not None and place.bytes_left == UNKNOWN):
            raise ValueError("advance is only valid in a log")
        if isinstance(place, Batch) and self._state.to_magic == V2:
            raise ValueError(NO_MAGIC_2)
        call = Advance(source, position, end, chunk_size, target, room, budget)
        self._damage = None
        done = call.run(self)
        damage, self._damage = self._damage, None
        if damage is not None and done[2] == Outcome.DAMAGE:
            self._damage = (damage[0], position + done[0])
        return done

    def recode(self, source: Buffer, start: int, end: int, codec: int) -> bytes | None:
        if self._state.place is not None:
            raise ValueError("no entry of a log is next")
        if not Codec.GZIP <= codec < Codec.ZSTD:
            raise ValueError("older messages have no such codec")
        entry = Window(source, start, end, 0).source[start:end]
        return self.recode_into(entry, Codec(codec), sys.maxsize)

    def recode_into(self, entry: memoryview, codec: Codec | None, size_max: int) -> bytes | None:
        """Recodes for `advance`. Also None if the messages are more than `size_max` bytes."""
        before = copy.deepcopy(self._state)
        try:
            made = recode(self, entry, codec)
            if len(made) > size_max:
                raise NotAtOnce
            return made
        except NotAtOnce:
            self._state = before
            return None
        finally:
            self.leave()
            self._damage = None

    @property
    def state(self) -> State:
        return self._state

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
    def totals(self) -> tuple[int, int, int, int]:
        return self._state.account.totals

    @property
    def wrapper(self) -> tuple[int, int, int, int]:
        return self._state.account.wrapper

    @property
    def last_offset(self) -> int:
        last_offset = self._state.account.last_offset
        return -1 if last_offset is None else last_offset
