"""The size that is promised before anything is sent, and how far the conversion may then go.

Exact: the conversion is measured, to its end or to the first damage or refusal behind something
good. Estimate: Kafka's max(raw size, first converted batch), from LazyDownConversionRecords; and
where a codec is refused behind the first batch, Kafka's way of leaving out the chunk that it is
found in.

Not here: converting (converter.py), keeping the promise (send.py)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from records.errors import RecordsError
from records.source import Records

from .converter import Converter
from .filler import NOTHING_LEFT_SIZE
from .policy import RESPONSE_SIZE_MAX
from .request import Request
from .rules import rules_for

KAFKA_READ_SIZE_MAX: Final = 128 * 1024  # LazyDownConversionRecordsSend.MAX_READ_SIZE


@dataclass(frozen=True, slots=True)
class Plan:
    """size: bytes promised. is_exact: all of it will be messages. first_end: where the first
    batch that converts to something ends. damage: why the range ends before the records do, or
    None. is_cut: it ends where the size of an answer does."""

    size: int
    is_exact: bool
    first_end: int
    damage: RecordsError | None
    is_cut: bool = False


def plan(records: Records, request: Request) -> Plan:
    """Raises RecordsError where there is nothing good before the first damage or refusal."""
    if request.policy.size != "estimate":
        exact = _exact(records, request)
        if exact is not None:
            return exact
    return _estimate(records, request)


def _exact(records: Records, request: Request) -> Plan | None:
    """None: the policy is "auto", and compressed output turned up."""
    converter = Converter.measuring(records, request)
    is_auto = request.policy.size == "auto"
    size = 0
    damage: RecordsError | None = None
    is_cut = False
    try:
        for piece in converter.pieces(records.size):
            if is_auto and converter.compresses:
                return None
            if size + piece > RESPONSE_SIZE_MAX:
                is_cut = True
                break
            size += piece
    except RecordsError as error:
        if size == 0:
            raise
        damage = error
    finally:
        converter.release()
    return Plan(size, True, 0, damage, is_cut)


def _estimate(records: Records, request: Request) -> Plan:
    converter = Converter.measuring(records, request, first_only=True)
    size = end = 0
    try:
        for header in records.batches():
            end = header.position + header.size
            size = sum(converter.pieces(end))
            if size:
                return Plan(max(records.size, size), False, end, None)
    finally:
        converter.release()
    return Plan(NOTHING_LEFT_SIZE if end else 0, False, end, None)


def ends(records: Records, request: Request, chosen: Plan) -> Iterator[int]:
    """How far to convert, step by step: each end is known to be good to go to when it is given."""
    rules = rules_for(request.policy, request.to_magic)
    if chosen.is_exact or not rules.may_refuse:
        yield records.size
        return
    yield chosen.first_end
    group_size = 0
    end = chosen.first_end
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
