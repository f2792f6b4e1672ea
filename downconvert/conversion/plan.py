"""Plans a response: the size promised before anything is sent, and the end of the conversion.

Exact: a small response is made completely. A larger one is measured, up to its end or the first
damage or refusal after good records. From the first recompressed batch on, messages are made, not
measured (made.py). The response ends when there are enough of them.
Estimate: Kafka's max(raw size, first converted batch), from LazyDownConversionRecords. If a codec
is refused after the first batch, the chunk with that batch is left out, as in Kafka.

A plan is made in steps of bounded work, however large a batch is. A caller that serves other
connections continues the plan in a later turn.

Not here: converting (converter.py), keeping the promise (send.py)."""

from collections.abc import Iterator
from contextlib import suppress
from types import TracebackType
from typing import Final, NamedTuple

from records.errors import ClosedRecordsError, RecordsError
from records.files.source import Records
from records.steps import Steps
from records.units import KiB

from .aborted import AbortedTransactions
from .converter import Converter
from .engine import END, IN_MEMORY, Engine, Progress
from .filler import NOTHING_LEFT_SIZE
from .made import ENOUGH, Held, Made
from .policy import RESPONSE_SIZE_MAX
from .request import Request
from .rules import rules_for
from .stats import Clock, Counts

KAFKA_READ_SIZE_MAX: Final = 128 * KiB  # LazyDownConversionRecordsSend.MAX_READ_SIZE

STEP_SIZE: Final = 32 * KiB  # bytes made in a step

# Bytes of records. A response up to this size is converted while it is planned, so it need not be
# measured.
SMALL_SIZE_MAX: Final = 64 * KiB
SMALL_STEP_SIZE: Final = 128 * KiB  # bytes made in a step of such a response: usually all

# The least work that is counted for a step inside an entry. Python takes as long for such a step as
# the kernel for this many bytes.
ENTRY_WORK_MIN: Final = 16 * KiB


class Plan(NamedTuple):
    """size: bytes promised. end: the position in the records where the conversion ends; 0 if all
    messages are held. In an estimate, the end of the first batch that converts to something.
    is_exact: no filler is sent.
    damage: why the range ends before the records do, or None. held: messages that have been made,
    which follow the converted ones. cuts_no_message: the promised size ends after a whole
    message."""

    size: int
    end: int
    is_exact: bool
    damage: RecordsError | None = None
    held: Held | None = None
    cuts_no_message: bool = True

    @property
    def is_whole(self) -> bool:
        """Whether the plan covers all records."""
        return self.cuts_no_message and self.damage is None


def planning(records: Records, request: Request, clock: Clock) -> Steps[Plan]:
    """Plans in steps. Raises RecordsError if damage or a refusal comes before the first good
    record. `clock`: measures the time of making messages."""
    try:
        if request.policy.size == "estimate":
            return (yield from _estimate(records, request))
        if (size := records.size) <= SMALL_SIZE_MAX:
            engine = Engine(records, request)
            call = 0, size, SMALL_SIZE_MAX, IN_MEMORY, RESPONSE_SIZE_MAX, SMALL_STEP_SIZE
            started = clock()
            first = engine.advance(*call)
            seconds = clock() - started
            small = _made_at_once(size, engine, first, seconds)
            if small is None:
                small = yield from _small(records, request, clock, engine, first, seconds)
            if small is not None:
                return small
        return (yield from _large(records, request, clock))
    except RecordsError as error:
        _clear(error.__traceback__)  # its frames refer to the error, and to the records
        raise


def _clear(traceback: TracebackType | None) -> None:
    """Clears the variables of the frames that have ended."""
    while traceback is not None:
        with suppress(RuntimeError):  # the frame still runs
            traceback.tb_frame.clear()
        traceback = traceback.tb_next


def _small(
    records: Records,
    request: Request,
    clock: Clock,
    engine: Engine,
    first: Progress,
    seconds: float,
) -> Steps[Plan | None]:
    """Makes the rest of a small response. `engine`, `first`, `seconds`: its engine, the progress of
    its first call, and how long that took. None: the response expands too much. The rules for a
    large response then decide where it ends."""
    size = records.size
    converter = Converter(records, request, SMALL_SIZE_MAX, engine)
    made = Made(ENOUGH, RESPONSE_SIZE_MAX)
    made.seconds = seconds
    damage: RecordsError | None = None
    is_done = True
    try:
        call = size, IN_MEMORY, RESPONSE_SIZE_MAX, SMALL_STEP_SIZE
        if (done := converter.advance(*call, first)) is not None:
            made.add(done[3] or b"", is_whole=converter.is_between)
        yield _work_since(converter, 0)
        is_done = yield from _make(converter, made, size, SMALL_STEP_SIZE, clock)
    except ClosedRecordsError:
        raise
    except RecordsError as error:
        damage = error.with_traceback(None)
    finally:
        converter.release()
    is_done = is_done and made.is_all
    if damage is None and not is_done:
        return None
    if damage is not None and not made.size:
        raise damage
    held = made.hold(converter.counts)
    end = size if held is None else 0
    return Plan(made.size, end, is_exact=True, damage=damage, held=held, cuts_no_message=is_done)


def _large(records: Records, request: Request, clock: Clock) -> Steps[Plan]:
    """Measures a response up to its first recompressed batch, and makes messages from there on."""
    converter = Converter(records, request)
    size = held_from = 0
    measured = Counts()
    made: Made | None = None
    damage: RecordsError | None = None
    is_done = True
    try:
        for piece, work in _with_work(converter, converter.sizes(records.size, makes=False)):
            yield work
            if size + piece > RESPONSE_SIZE_MAX:
                is_done = False
                break
            size += piece
        held_from, measured = converter.position, converter.counts
        if is_done and held_from < records.size:
            room = RESPONSE_SIZE_MAX - size
            made = Made(ENOUGH if request.policy.may_end_early else room, room)
            is_done = yield from _make(converter, made, records.size, STEP_SIZE, clock)
    except ClosedRecordsError:
        raise
    except RecordsError as error:
        damage = error.with_traceback(None)
    finally:
        converter.release()
    held = None
    if made is not None:
        is_done = is_done and made.is_all
        size += made.size
        held = made.hold(converter.counts.since(measured))
    if damage is not None and not size:
        raise damage
    end = records.size if held is None else held_from
    return Plan(size, end, is_exact=True, damage=damage, held=held, cuts_no_message=is_done)


def _with_work(converter: Converter, sizes: Iterator[int]) -> Iterator[tuple[int, int]]:
    """Yields the size of each piece, and the work for it."""
    done = converter.work
    for piece in sizes:
        before, done = done, converter.work
        yield piece, _work_since(converter, before)


def _work_since(converter: Converter, before: int) -> int:
    """The work of one step. `before`: the work before it."""
    return max(converter.work - before, 1 if converter.is_between else ENTRY_WORK_MIN)


def _made_at_once(size: int, engine: Engine, done: Progress, seconds: float) -> Plan | None:
    """The plan of a small response, if one call of the kernel has made it. Usually, it has. `size`:
    of the records."""
    consumed, _, outcome, rest, _ = done
    messages = bytes(rest or b"")
    if outcome != END or len(messages) > ENOUGH:
        return None
    held = Held.within_budget(messages, engine.counts(consumed), seconds)
    end = size if held is None else 0
    return Plan(size=len(messages), end=end, is_exact=True, held=held)


def _make(converter: Converter, made: Made, end: int, size: int, clock: Clock) -> Steps[bool]:
    """Makes messages, about `size` bytes a step, until there are enough or the range ends. Returns
    whether the range has ended."""
    done = converter.work
    while (wanted := made.wanted) > 0:
        started = clock()
        budget = min(size, wanted)
        progress = converter.advance(end, IN_MEMORY, RESPONSE_SIZE_MAX, budget)
        made.seconds += clock() - started
        if progress is None:
            return True
        _, _, outcome, messages, _ = progress
        made.add(messages or b"", is_whole=converter.is_between)
        if outcome == END:
            return True
        before, done = done, converter.work
        yield _work_since(converter, before)
    return converter.position >= end


def _estimate(records: Records, request: Request) -> Steps[Plan]:
    converter = Converter(records, request)
    size = end = 0
    try:
        for header in records.batches():
            end = header.position + header.size
            for piece, work in _with_work(converter, converter.sizes(end, makes=True)):
                size += piece
                yield work
            if size:
                return _estimated(max(records.size, size), end)
    finally:
        converter.release()
    return _estimated(NOTHING_LEFT_SIZE if end else 0, end)


def _estimated(size: int, end: int) -> Plan:
    return Plan(size=size, end=end, is_exact=False, cuts_no_message=False)


def ends(records: Records, request: Request, first_end: int) -> Iterator[int]:
    """Yields positions to convert up to, for an estimate with its first batch up to `first_end`. No
    entry before a yielded position is refused."""
    rules = rules_for(request.policy, request.to_magic)
    if not rules.may_refuse:
        yield records.size
        return
    aborted = AbortedTransactions(request.aborted) if rules.committed_only else None
    end = group_size = 0
    for header in records.batches():
        is_left_out = aborted is not None and aborted.leaves_out(records, header)
        if end == first_end or group_size + header.size > KAFKA_READ_SIZE_MAX:
            yield end
            group_size = 0
        if not is_left_out and rules.refuses(header):
            return
        group_size += header.size
        end += header.size
    yield end
