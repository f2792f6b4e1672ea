"""Plans a response: the size promised before anything is sent, and the end of the conversion.

Exact: a small response is made completely. A larger one is measured, up to its end or the first
damage or refusal after good records. From the first batch that is compressed again, messages are
made rather than measured (made.py). The response ends when there are enough of them.
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
from records.units import KiB

from .aborted import AbortedTransactions
from .converter import Converter
from .engine import END, IN_MEMORY
from .filler import NOTHING_LEFT_SIZE
from .made import ENOUGH, Held, Made
from .policy import RESPONSE_SIZE_MAX
from .request import Request
from .rules import rules_for
from .stats import Clock, Counts
from .steps import Steps

KAFKA_READ_SIZE_MAX: Final = 128 * KiB  # LazyDownConversionRecordsSend.MAX_READ_SIZE

MADE_SIZE: Final = 32 * KiB  # bytes made in a step

# Bytes of records. A response up to this size is made while it is planned, so that its size costs
# nothing.
SMALL_SIZE_MAX: Final = 64 * KiB

# The minimum count of a step inside an entry. Python needs about as long for the step as the
# kernel needs to convert this many bytes.
WITHIN: Final = 16 * KiB


class Plan(NamedTuple):
    """size: bytes promised. end: the position in the records where the conversion ends. In an
    estimate, the end of the first batch that converts to something. is_exact: no filler is sent.
    damage: why the range ends before the records do, or None. held: messages made already, which
    follow the converted ones. cuts_no_message: the promised size cuts no message."""

    size: int
    end: int
    is_exact: bool
    damage: RecordsError | None = None
    held: Held | None = None
    cuts_no_message: bool = True

    @property
    def is_held(self) -> bool:
        """Whether all messages have been made."""
        return self.held is not None and not self.end

    @property
    def is_whole(self) -> bool:
        """Whether the plan covers all records."""
        return self.cuts_no_message and self.damage is None


def planning(records: Records, request: Request, clock: Clock) -> Steps[Plan]:
    """A plan, in steps. Raises RecordsError if there is nothing good before the first damage or
    refusal. `clock`: measures how long it takes to make messages."""
    try:
        if request.policy.size == "estimate":
            return (yield from _estimate(records, request))
        found = plan_small(records, request, clock)
        if found is not None:
            small, work = found
            yield work
            return small
        if records.size <= SMALL_SIZE_MAX:
            expanded = yield from _small(records, request, clock)
            if expanded is not None:
                return expanded
        return (yield from _exact(records, request, clock))
    except RecordsError as error:
        _clear(error.__traceback__)  # its frames refer to the error, and to the records
        raise


def _clear(traceback: TracebackType | None) -> None:
    """Clears the variables of the frames that have ended."""
    while traceback is not None:
        with suppress(RuntimeError):  # this one still runs
            traceback.tb_frame.clear()
        traceback = traceback.tb_next


def plan_small(records: Records, request: Request, clock: Clock) -> tuple[Plan, int] | None:
    """The plan of a small response that the kernel makes by one call, and the work for it. None:
    it takes more steps, or raises an error."""
    end = records.size
    if end > SMALL_SIZE_MAX or request.policy.size == "estimate":
        return None
    started = clock()
    converter = Converter(records, request, SMALL_SIZE_MAX)
    try:
        made = converter.advance(end, IN_MEMORY, RESPONSE_SIZE_MAX, ENOUGH)
    except RecordsError:
        return None
    finally:
        converter.release()
    if made is not None and made.outcome != END and converter.position < end:
        return None
    messages = bytes((made and made.rest) or b"")
    if len(messages) > ENOUGH:
        return None
    held = Held.within_budget(messages, converter.counts, clock() - started)
    ends_at = end if held is None else 0
    return Plan(size=len(messages), end=ends_at, is_exact=True, held=held), converter.work or 1


def _small(records: Records, request: Request, clock: Clock) -> Steps[Plan | None]:
    """Makes all of a small response, step by step. None if it expands too much. The rules for a
    large response then decide how much of it is sent."""
    converter, end = Converter(records, request, SMALL_SIZE_MAX), records.size
    made = Made(ENOUGH, RESPONSE_SIZE_MAX)
    damage: RecordsError | None = None
    is_done = False
    try:
        is_done = yield from _make(converter, made, end, clock)
    except ClosedRecordsError:
        raise
    except RecordsError as error:
        damage = error.with_traceback(None)
    finally:
        converter.release()
    if damage is None and not (is_done and made.is_all):
        return None
    return _planned(records, 0, 0, made, converter.counts, damage, is_cut=False)


def _exact(records: Records, request: Request, clock: Clock) -> Steps[Plan]:
    converter, end = Converter(records, request), records.size
    size = held_from = 0
    before = converter.counts
    made: Made | None = None
    damage: RecordsError | None = None
    is_cut = is_done = False
    try:
        for piece, work in _worked(converter, converter.measured(end)):
            yield work
            if size + piece > RESPONSE_SIZE_MAX:
                is_cut = True
                break
            size += piece
        held_from, before = converter.position, converter.counts
        if held_from < end and not is_cut:
            room = RESPONSE_SIZE_MAX - size
            made = Made(ENOUGH if request.policy.may_end_early else room, room)
            is_done = yield from _make(converter, made, end, clock)
    except ClosedRecordsError:
        raise
    except RecordsError as error:
        damage = error.with_traceback(None)
    finally:
        converter.release()
    if made is not None:
        is_cut = made.wanted <= 0 and not is_done
    counts = converter.counts.since(before)
    return _planned(records, size, held_from, made, counts, damage, is_cut=is_cut)


def _worked(converter: Converter, sizes: Iterator[int]) -> Iterator[tuple[int, int]]:
    """The size of each piece, and the work done for it."""
    done = converter.work
    for piece in sizes:
        before, done = done, converter.work
        yield piece, _work(converter, done - before)


def _work(converter: Converter, counted: int) -> int:
    """The count of a step. `counted`: the converter's own count for it."""
    return max(counted, 1 if converter.is_between else WITHIN)


def _planned(
    records: Records,
    size: int,
    held_from: int,
    made: Made | None,
    counts: Counts,
    damage: RecordsError | None,
    *,
    is_cut: bool,
) -> Plan:
    """A plan of the measured and made messages, `size` bytes. `held_from`: the position where the
    made ones begin. Raises the damage if nothing before it is good."""
    held = None
    if made is not None:
        is_cut = is_cut or not made.is_all
        held = made.hold(counts)
        size += made.size
    if damage is not None and not size:
        raise damage
    return Plan(
        size=size,
        end=records.size if held is None else held_from,
        is_exact=True,
        damage=damage,
        held=held,
        cuts_no_message=not is_cut,
    )


def _make(converter: Converter, made: Made, end: int, clock: Clock) -> Steps[bool]:
    """Makes messages until there are enough. Returns whether it has reached the end."""
    done = converter.work
    while made.wanted > 0:
        started = clock()
        budget = min(MADE_SIZE, made.wanted)
        progress = converter.advance(end, IN_MEMORY, RESPONSE_SIZE_MAX, budget)
        made.seconds += clock() - started
        if progress is None:
            return True
        made.add(progress.rest or b"", is_whole=converter.is_between)
        before, done = done, converter.work
        yield _work(converter, done - before)
    return converter.position >= end


def _estimate(records: Records, request: Request) -> Steps[Plan]:
    converter = Converter(records, request)
    size = end = 0
    try:
        for header in records.batches():
            end = header.position + header.size
            for piece, work in _worked(converter, converter.sizes(end)):
                size += piece
                yield work
            if size:
                return _estimated(max(records.size, size), end)
    finally:
        converter.release()
    return _estimated(NOTHING_LEFT_SIZE if end else 0, end)


def _estimated(size: int, end: int) -> Plan:
    return Plan(size=size, end=end, is_exact=False, cuts_no_message=False)


def ends(records: Records, request: Request, chosen: Plan) -> Iterator[int]:
    """Yields positions up to which to convert. No entry before a yielded position is refused."""
    rules = rules_for(request.policy, request.to_magic)
    if chosen.is_exact:
        yield chosen.end
        return
    if not rules.may_refuse:
        yield records.size
        return
    aborted = AbortedTransactions(request.aborted) if rules.committed_only else None
    end = group_size = 0
    for header in records.batches():
        is_left_out = aborted is not None and aborted.leaves_out(records, header)
        if end == chosen.end or group_size + header.size > KAFKA_READ_SIZE_MAX:
            yield end
            group_size = 0
        if not is_left_out and rules.refuses(header):
            return
        group_size += header.size
        end += header.size
    yield end
