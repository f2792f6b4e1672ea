"""The size that is promised before anything is sent, and how far the conversion may then go.

Exact: the conversion is measured, to its end or to the first damage or refusal after something
good. From the first batch on that is compressed again, messages are made in the place of being
measured (made.py), and when there are enough of them the answer ends.
Estimate: Kafka's max(raw size, first converted batch), from LazyDownConversionRecords; and where a
codec is refused after the first batch, Kafka's way of leaving out the chunk that it is found in.

A plan is made in steps of bounded work, however large a batch is: whoever serves others as well
goes on with it in another turn.

Not here: converting (converter.py), keeping the promise (send.py)."""

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias, TypeVar

from records.errors import ClosedRecordsError, RecordsError
from records.files.source import Records

from .converter import MADE_SIZE, Converter
from .filler import NOTHING_LEFT_SIZE
from .made import ENOUGH, Held, Made
from .policy import RESPONSE_SIZE_MAX
from .request import Request
from .rules import rules_for

Found = TypeVar("Found")
# Yields the work that each step has done: bytes that went through memory, those of what is
# compressed again several times.
Steps: TypeAlias = Generator[int, None, Found]

KAFKA_READ_SIZE_MAX: Final = 128 * 1024  # LazyDownConversionRecordsSend.MAX_READ_SIZE


# What a step in the midst of an entry counts at least. It takes Python about as long as it takes
# the kernel to convert so many bytes.
WITHIN: Final = 16 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """size: bytes promised. end: where in the records the conversion ends, if it gets that far;
    of an estimate, where the first batch that converts to something ends. is_exact: no filler is
    sent. damage: why the range ends before the records do, or None. held: the messages that were
    made already, from `held_from` of the records on, which end the answer. cuts_no_message: no
    piece of the conversion is cut. is_whole: all of the records are in it."""

    size: int
    end: int
    is_exact: bool
    damage: RecordsError | None = None
    held: Held | None = None
    held_from: int = 0
    cuts_no_message: bool = True
    is_whole: bool = True


def plan(records: Records, request: Request) -> Plan:
    """Raises RecordsError where there is nothing good before the first damage or refusal."""
    return at_once(planning(records, request))


def planning(records: Records, request: Request) -> Steps[Plan]:
    """As `plan`, in steps."""
    by = _estimate if request.policy.size == "estimate" else _exact
    return (yield from by(records, request))


def at_once(steps: Steps[Found]) -> Found:
    """What the steps find, without a break."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: Found = end.value
            return found


def _sizes(converter: Converter, pieces: Iterator[int]) -> Iterator[tuple[int, int]]:
    """The sizes of the pieces, and the work that was done for each."""
    done = converter.work
    for piece in pieces:
        before, done = done, converter.work
        yield piece, _work(converter, done - before)


def _work(converter: Converter, counted: int) -> int:
    """What a step counts, of which the converter has counted this."""
    return max(counted, 1 if converter.can_rest else WITHIN)


def _exact(records: Records, request: Request) -> Steps[Plan]:
    converter = Converter.planning(records, request)
    size = held_from = 0
    before = converter.counts
    made: Made | None = None
    damage: RecordsError | None = None
    is_cut = is_done = False
    try:
        for piece, work in _sizes(converter, converter.pieces(records.size)):
            yield work
            if size + piece > RESPONSE_SIZE_MAX:
                is_cut = True
                break
            size += piece
        held_from, before = converter.window.position, converter.counts
        if held_from < records.size and converter.has_stopped and not is_cut:
            room = RESPONSE_SIZE_MAX - size
            made = Made(ENOUGH if request.policy.may_end_early else room, room)
            is_done = yield from _make(converter, made, records.size)
    except ClosedRecordsError:
        raise
    except RecordsError as error:
        damage = error
    finally:
        converter.release()
    held = None
    if made is not None:
        is_cut = not made.is_all or (made.wanted <= 0 and not is_done)
        held = made.hold(converter.counts.since(before))
        size += made.size
    if damage is not None and not size:
        raise damage
    return Plan(
        size=size,
        end=records.size,
        is_exact=True,
        damage=damage,
        held=held,
        held_from=held_from,
        cuts_no_message=not is_cut,
        is_whole=damage is None and not is_cut,
    )


def _make(converter: Converter, made: Made, end: int) -> Steps[bool]:
    """Makes messages until there are enough. Returns whether it has come to the end."""
    converter.make()
    pieces = converter.pieces(end)
    done = converter.work
    while made.wanted > 0:
        piece = converter.next_made(pieces, end, min(MADE_SIZE, made.wanted))
        if piece is None:
            return True
        made.add(piece, is_whole=converter.can_rest)
        before, done = done, converter.work
        yield _work(converter, done - before)
    return converter.window.position >= end and converter.can_rest


def _estimate(records: Records, request: Request) -> Steps[Plan]:
    converter = Converter.measuring(records, request, first_only=True)
    size = end = 0
    try:
        for header in records.batches():
            end = header.position + header.size
            for piece, work in _sizes(converter, converter.pieces(end)):
                size += piece
                yield work
            if size:
                return _estimated(max(records.size, size), end)
    finally:
        converter.release()
    return _estimated(NOTHING_LEFT_SIZE if end else 0, end)


def _estimated(size: int, end: int) -> Plan:
    return Plan(size=size, end=end, is_exact=False, cuts_no_message=False, is_whole=False)


def ends(records: Records, request: Request, chosen: Plan) -> Iterator[int]:
    """How far to convert, step by step: up to each end that this yields, nothing is refused."""
    rules = rules_for(request.policy, request.to_magic)
    if chosen.is_exact:
        yield chosen.end if chosen.held is None else chosen.held_from
        return
    if not rules.may_refuse:
        yield records.size
        return
    yield chosen.end
    group_size = 0
    end = chosen.end
    rest = records.slice(end, records.size - end)
    for header in rest.batches():
        if group_size and group_size + header.size > KAFKA_READ_SIZE_MAX:
            yield end
            group_size = 0
        if rules.refuses(header):
            return
        group_size += header.size
        end += header.size
    yield end
