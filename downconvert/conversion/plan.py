"""The size that is promised before anything is sent, and how far the conversion may then go.

Exact: the conversion is measured, to its end or to the first damage or refusal after something
good; where it ends with batches that are compressed again, those are predicted (prediction.py).
Estimate: Kafka's max(raw size, first converted batch), from LazyDownConversionRecords; and where a
codec is refused after the first batch, Kafka's way of leaving out the chunk that it is found in.

A plan is made in steps of bounded work, however large a batch is: whoever serves others as well
goes on with it in another turn.

Not here: converting (converter.py), keeping the promise (send.py, padded.py)."""

from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias, TypeVar

from records.compressed import STEP_SIZE
from records.errors import ClosedRecordsError, RecordsError
from records.source import Records

from .converter import COMPRESSED_WEIGHT, Converter
from .filler import NOTHING_LEFT_SIZE
from .kept_wrappers import NOTHING_KEPT, KeptWrapper
from .padded import Account
from .policy import RESPONSE_SIZE_MAX
from .prediction import Run
from .request import Request
from .rules import rules_for

Found = TypeVar("Found")
# Yields the work that each step has done: bytes that went through memory, those of what is
# compressed again several times.
Steps: TypeAlias = Generator[int, None, Found]

KAFKA_READ_SIZE_MAX: Final = 128 * 1024  # LazyDownConversionRecordsSend.MAX_READ_SIZE


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """size: bytes promised. end: where in the records the conversion ends, if it gets that far;
    of an estimate, where the first batch that converts to something ends. is_exact: no filler is
    sent. damage: why the range ends before the records do, or None. account: the part of it that is
    predicted, or None. kept: messages that were made already. ends_with_a_piece: no message is cut
    at the limit of a response's size. is_whole: all of the records are in it."""

    size: int
    end: int
    is_exact: bool
    damage: RecordsError | None = None
    account: Account | None = None
    kept: Mapping[int, KeptWrapper] = field(default_factory=lambda: NOTHING_KEPT)
    ends_with_a_piece: bool = True
    is_whole: bool = True


def plan(records: Records, request: Request) -> Plan:
    """Raises RecordsError where there is nothing good before the first damage or refusal."""
    return at_once(planning(records, request))


def planning(records: Records, request: Request) -> Steps[Plan]:
    """As `plan`, in steps."""
    if request.policy.size != "estimate":
        exact = yield from _exact(records, request)
        if exact is not None:
            return exact
    return (yield from _estimate(records, request))


def at_once(steps: Steps[Found]) -> Found:
    """What the steps find, without a break."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: Found = end.value
            return found


def _sizes(converter: Converter, end: int) -> Iterator[tuple[int, int]]:
    """The sizes of the pieces up to an end, and the work that was done for each."""
    # A step in the midst of an entry has decompressed as much as this, or read ahead.
    within = COMPRESSED_WEIGHT * max(converter.chunk_size, STEP_SIZE)
    done = converter.work
    for piece in converter.pieces(end):
        before, done = done, converter.work
        yield piece, max(done - before, 1 if converter.can_rest else within)


def _exact(records: Records, request: Request) -> Steps[Plan | None]:
    """None: the policy is "auto", and compressed output turned up."""
    converter = Converter.measuring(records, request)
    predicted = converter.predicting(request)
    is_auto = request.policy.size == "auto"
    size = 0
    run: Run | None = None
    damage: RecordsError | None = None
    is_cut = False
    try:
        for piece, work in _sizes(converter, records.size):
            yield work
            if is_auto and converter.compresses:
                return None
            if not piece:
                continue
            run = predicted.take()
            if run is not None:  # and something plain follows it
                if not _is_to_be_measured(run, records, request):
                    break
                size += yield from _measured(run, records, request)
                run = None
            if size + piece > RESPONSE_SIZE_MAX:
                is_cut = True
                break
            size += piece
    except ClosedRecordsError:
        raise
    except RecordsError as error:
        damage = error
    finally:
        converter.release()
    account = None
    end = records.size
    if run is None:
        run = predicted.take()
    else:
        end = run.end
    if run is not None and run.is_exact:
        size += run.size
    elif run is not None:
        account = Account(run.position, min(run.promise, RESPONSE_SIZE_MAX - size))
        size += account.size
        end = run.end
    if account is None:
        size += predicted.before_damage
    if damage is not None and not size:
        raise damage
    return Plan(
        size=size,
        end=end,
        is_exact=True,
        damage=damage,
        account=account,
        kept=predicted.kept,
        ends_with_a_piece=not is_cut,
        is_whole=damage is None and not is_cut and account is None and end == records.size,
    )


def _is_to_be_measured(run: Run, records: Records, request: Request) -> bool:
    """Whether a run that is followed by plain messages is measured, so that they may follow. It
    must be exact then, which costs compressing it twice; but where it ends in the second half of
    the records, or depends on transactions before it, the answer ends with it instead."""
    return run.is_exact or (2 * run.end <= records.size and not request.aborted)


def _measured(run: Run, records: Records, request: Request) -> Steps[int]:
    """Bytes of all of a run. RecordsError: damage in a batch that had been predicted."""
    if run.is_exact:
        return run.size
    converter = Converter.measuring(records.slice(*run.rest), request)
    size = run.first_size
    try:
        for piece, work in _sizes(converter, run.rest[1]):
            size += piece
            yield work
        return size
    finally:
        converter.release()


def _estimate(records: Records, request: Request) -> Steps[Plan]:
    converter = Converter.measuring(records, request, first_only=True)
    size = end = 0
    try:
        for header in records.batches():
            end = header.position + header.size
            for piece, work in _sizes(converter, end):
                size += piece
                yield work
            if size:
                return _estimated(max(records.size, size), end)
    finally:
        converter.release()
    return _estimated(NOTHING_LEFT_SIZE if end else 0, end)


def _estimated(size: int, end: int) -> Plan:
    return Plan(size=size, end=end, is_exact=False, ends_with_a_piece=False, is_whole=False)


def ends(records: Records, request: Request, chosen: Plan) -> Iterator[int]:
    """How far to convert, step by step: up to each end that this yields, nothing is refused."""
    rules = rules_for(request.policy, request.to_magic)
    if chosen.is_exact:
        yield chosen.end
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
