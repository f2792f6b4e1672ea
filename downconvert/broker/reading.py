"""What one partition contributes to the answer of a fetch.

Records go out as they are, or converted. A range may convert to nothing: markers, and batches from
which compaction has removed all records at or after the offset asked for. An old client that gets
nothing fetches the same offset again, for ever. So a conversion reads on, across batches and
segments, until there is a record. It never sends one below the offset asked for, as some clients
hand those to the application.

Not here: which policy (conversions.py), the order of decisions (fetch_reader.py)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Final

from downconvert import ConversionPolicy, LazyRecodedRecords
from downconvert.broker.wire.joined_send import JoinedSend
from downconvert.conversion.skip import skip
from downconvert.storage import StorageError
from records import FileRecords, RecordsError
from records.formats import V2, Codec
from records.sends import Send
from records.units import MiB

from .conversion_cache import ConversionCache
from .fetch_assembly import (
    convert_range,
    end_offset_of,
    first_of_use,
    hard_size,
    has_record_from,
    head_of,
    joins_more,
    to_send,
)
from .partition import Partition
from .shared_range import CHUNK_SIZE, Asker, Ends, SharedRange, take

# How much of a log is skipped in one turn, where it has nothing for a client. That takes some
# milliseconds, after which other requests have a turn.
SKIP_SIZE: Final = 16 * MiB

# How much of a log is converted in one turn for a client that reads older formats: some
# milliseconds, in which other clients of the thread wait. What is compressed has to be inflated and
# compressed again, and counts as many times its size.
CONVERTED_SIZE: Final = 8 * MiB
COMPRESSED_WEIGHT: Final = 64

# How many batches are looked at in one turn for a client that reads v2: some milliseconds.
BATCHES_A_TURN: Final = 1_000


class ConvertedSend(JoinedSend):
    """Records that are converted while they are sent, with what the metrics ask for."""

    __slots__ = ("topic",)

    def __init__(self, topic: str, sends: list[Send]) -> None:
        super().__init__(sends)
        self.topic = topic


@dataclass(frozen=True, slots=True)
class Contribution:
    """records: to be sent. source_size: bytes of the log that they come from, which is what limits
    count. seen_to: there is nothing else below this offset. is_whole: else there was so much to
    look at or to convert that it goes on in another turn, from `seen_to`. source: where they lie,
    if as they are."""

    records: Send | bytes
    source_size: int
    seen_to: int
    is_whole: bool = True
    source: FileRecords | None = None


def nothing(seen_to: int) -> Contribution:
    """No records; never null, which clients of 0.9 cannot parse."""
    return Contribution(b"", 0, seen_to)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """max_bytes: of the log. first: a first batch that is larger is sent all the same. is_hard: not
    more than that goes out, but for a first message (Fetch below version 3)."""

    max_bytes: int
    first: bool
    is_hard: bool = False


def read_as_is(
    partition: Partition,
    offset: int,
    up_to: int,
    limits: Limits,
    *,
    recode: Mapping[str, str] | None = None,
    is_follower: bool = False,
    is_committed: bool = False,
    start: int | None = None,
) -> Contribution:
    """As on disk, but for the codecs that the client does not know: `recode` as in
    ConversionPolicy, None: it knows all. `is_follower`: it wants every batch; `is_committed`:
    the client needs markers, to know which records were aborted. `start`: where an earlier turn
    has come to. UnsupportedCodecError: a codec is what is there, and is refused."""
    records = partition.read(offset if start is None else start, limits.max_bytes, up_to)
    if not is_follower:
        found = _from_a_record_on(
            partition, records, offset, up_to, limits, wants_markers=is_committed
        )
        if isinstance(found, int):
            return Contribution(b"", 0, found, is_whole=False)
        records = found
    if not _fits(records, limits):
        return nothing(offset if records.size else max(offset, up_to))
    if recode and any(header.codec.name.lower() in recode for header in records.batches()):
        lazy = LazyRecodedRecords(records, recode)
        records = records.slice(0, lazy.source_size)
        return Contribution(lazy.to_send(), records.size, up_to, source=records)
    return Contribution(records.to_send(), records.size, up_to, source=records)


def read_converted(
    partition: Partition,
    offset: int,
    up_to: int,
    limits: Limits,
    *,
    magic: int,
    policy: ConversionPolicy,
    cache: ConversionCache | None = None,
    client: int = 0,
    start: int | None = None,
    so_far: Contribution | None = None,
) -> Contribution:
    """Converted to messages of format `magic`, none of them below `offset`.

    `cache`: of what other clients ask for, too; `client`: the number of this one. `start`: where an
    earlier turn has come to; `so_far`: what it has converted. No lock of the partition is held
    while anything is measured. RecordsError: damage, or a refusal, is the next there is."""
    position = offset if start is None else start
    if so_far is not None and so_far.source_size:
        return _continued(partition, offset, position, up_to, limits, magic, policy, so_far)
    if cache is not None and not cache.keeps(policy):
        cache = None
    skipped = 0
    while True:
        records = partition.read(position, limits.max_bytes, up_to)
        if not _fits(records, limits):
            # Nothing at all up to there, or something for which there is no room this time.
            return nothing(position if records.size else max(position, up_to))
        if not policy.trim_compressed and (after := _after_what_is_below(records, offset)):
            position = after
            continue
        is_tail = records.size < limits.max_bytes
        # Small fetches in the midst of a log end where nobody else's do.
        if cache is not None and (is_tail or records.size >= CHUNK_SIZE or not policy.predicts):
            asker = Asker(client, magic, offset, policy, _room(limits))
            shared = take(cache, records, asker, is_tail=is_tail)
            if shared.size:
                return _shared(partition, records, up_to, limits, asker, shared)
            if shared.ends is Ends.LATER:
                return Contribution(b"", 0, position, is_whole=False)
        piece = _measured_at_once(records, policy, magic)
        converted = _converted(piece, magic, offset, policy, limits)
        if converted is not None:
            send, is_all = converted
            sends, size = [send], piece.size
            end = end_offset_of(piece) if piece.size < records.size else None
            if is_all and end is not None:
                more = ConvertedSend(partition.name.topic, sends)
                return Contribution(more, size, end, is_whole=False)
            if is_all:
                size += _join(partition, records, up_to, limits, magic, policy, sends)
            return Contribution(ConvertedSend(partition.name.topic, sends), size, up_to)
        skipped_range = skip(partition.read(position, SKIP_SIZE, up_to), magic, offset, policy)
        if skipped_range.next_offset is None:  # no entry of it is whole
            return nothing(up_to)
        position = max(position, skipped_range.next_offset)
        skipped += skipped_range.size
        if skipped >= SKIP_SIZE:
            return Contribution(b"", 0, position, is_whole=False)


def _continued(
    partition: Partition,
    offset: int,
    position: int,
    up_to: int,
    limits: Limits,
    magic: int,
    policy: ConversionPolicy,
    so_far: Contribution,
) -> Contribution:
    """Another turn of a range of which something has been converted. Damage in the rest is reported
    to the next fetch, which begins with it."""
    assert isinstance(so_far.records, ConvertedSend)
    sends = list(so_far.records.parts)
    size, sent = so_far.source_size, so_far.records.size
    end: int | None = None
    try:
        left = limits.max_bytes - size
        records = partition.read(position, left, up_to) if position < up_to and left > 0 else None
        if records is not None and 0 < records.size <= left:
            piece = _measured_at_once(records, policy, magic)
            converted = convert_range(piece, magic, offset, policy, None)
            size += piece.size
            room = limits.max_bytes - sent if limits.is_hard else converted.size
            if converted.size and room > 0:
                sends.append(to_send(converted, min(room, converted.size)))
            if converted.is_whole and converted.size <= room and piece.size < records.size:
                end = end_offset_of(piece)
    except (RecordsError, StorageError, OSError):
        pass
    converted_send = ConvertedSend(partition.name.topic, sends)
    return Contribution(converted_send, size, up_to if end is None else end, is_whole=end is None)


def _room(limits: Limits) -> int | None:
    return limits.max_bytes if limits.is_hard else None


def _shared(
    partition: Partition,
    records: FileRecords,
    up_to: int,
    limits: Limits,
    asker: Asker,
    shared: SharedRange,
) -> Contribution:
    """What begins with chunks that other clients get, too. What is not kept follows while it is
    sent; damage in it is reported to the next fetch, which begins with it."""
    topic, sends, size = partition.name.topic, list[Send](shared.sends), shared.source_size
    size_max = hard_size(shared.size, _room(limits), lambda: shared.head)
    if size_max is not None:
        shared.cut(size_max)
        return Contribution(ConvertedSend(topic, sends), size, up_to)
    if shared.ends is Ends.ALL:
        how = asker.magic, asker.policy
        size = records.size
        size += _join(partition, records, up_to, limits, *how, sends, shared.end_offset)
        return Contribution(ConvertedSend(topic, sends), size, up_to)
    rest = records.slice(size, records.size - size)
    try:
        if shared.ends is Ends.COLD and asker.policy.predicts:
            converted = convert_range(rest, asker.magic, asker.offset, asker.policy, None)
            room = converted.size if asker.room is None else asker.room - shared.size
            if converted.size and room > 0:
                sends.append(to_send(converted, min(room, converted.size)))
            return Contribution(ConvertedSend(topic, sends), records.size, up_to)
        following = next(rest.batches(), None)
    except (RecordsError, OSError):
        following = None
    seen_to = up_to if following is None else following.base_offset
    return Contribution(ConvertedSend(topic, sends), size, seen_to)


def _measured_at_once(records: FileRecords, policy: ConversionPolicy, magic: int) -> FileRecords:
    """What of a range is measured in this turn.

    All of it under a policy that predicts sizes: then the answer converts while it is sent, in
    turns of its own, and may end with any range. But not where what is compressed becomes plain,
    for its size is not known before all of it has been decompressed."""
    if policy.predicts and not _decompresses(policy, magic):
        return records
    return _one_turn_of(records)


@lru_cache(maxsize=64)
def _decompresses(policy: ConversionPolicy, magic: int) -> bool:
    """Whether there is a codec that a policy replaces by none."""
    return any(policy.codec_for(codec, magic) is Codec.NONE for codec in Codec if codec)


def _one_turn_of(records: FileRecords) -> FileRecords:
    """The first batches of a range, as many as are measured in one turn; one at least."""
    left = CONVERTED_SIZE
    try:
        for header in records.batches():
            left -= header.size * (COMPRESSED_WEIGHT if header.codec else 1)
            if left <= 0:
                return records.slice(0, header.position + header.size)
    except RecordsError:  # the conversion finds it, after what is good
        pass
    return records


def available(partition: Partition, offset: int, up_to: int, max_bytes: int) -> int:
    """Bytes of the log that a fetch would get. Cheap: nothing but headers near `offset` is read.

    RecordsError, OSError as for reading."""
    if offset >= up_to:
        return 0
    return min(partition.read(offset, max_bytes, up_to).size, max_bytes)


def all_available(partition: Partition, offset: int, up_to: int, enough: int) -> int | None:
    """Bytes of the log from `offset` to `up_to`; None: `enough`, or more than a look can tell.

    Cheap: nothing but headers near `offset` is read. RecordsError, OSError as for reading."""
    records = partition.read(offset, enough, up_to)
    if records.size >= enough or (not records.size and offset < up_to):
        return None
    if records.size and partition.upper_bound(records) < up_to:  # it goes on in another segment
        return None
    return records.size


def _from_a_record_on(
    partition: Partition,
    records: FileRecords,
    offset: int,
    up_to: int,
    limits: Limits,
    *,
    wants_markers: bool,
) -> FileRecords | int:
    """Begins with the first batch that has something for the client. Returns an offset instead if
    so many had nothing that it goes on there in another turn."""
    looked_at = 0
    while True:
        first = first_of_use(records, offset, wants_markers=wants_markers)
        looked_at += first.looked_at
        if first.header is not None:
            if not first.header.position:
                return records
            return partition.read(first.header.base_offset, limits.max_bytes, up_to)
        if first.end is None:  # not even one whole batch
            return records
        if first.end >= up_to:
            return records.slice(0, 0)
        if looked_at >= BATCHES_A_TURN:
            return first.end
        records = partition.read(first.end, limits.max_bytes, up_to)


def _after_what_is_below(records: FileRecords, offset: int) -> int | None:
    """The offset after the first batch, if none of its records is at or after `offset`.

    A compressed batch that is not trimmed would be sent all the same, as Kafka does. The client
    drops what it gets, and asks for the same offset again."""
    header = next(records.batches(), None)
    if header is None or header.magic < V2 or header.base_offset >= offset:
        return None
    return None if has_record_from(records, header, offset) else header.last_offset + 1


def _fits(records: FileRecords, limits: Limits) -> bool:
    """Whether there is something, and room for it."""
    return records.size > 0 and (limits.first or records.size <= limits.max_bytes)


def _converted(
    records: FileRecords,
    magic: int,
    offset: int,
    policy: ConversionPolicy,
    limits: Limits,
) -> tuple[Send, bool] | None:
    """What sends a range, and whether that is all of it; None: there is nothing in it."""
    converted = convert_range(records, magic, offset, policy, None)
    if not converted.size:
        return None
    head = partial(head_of, converted, records, magic, offset, policy)
    size_max = hard_size(converted.size, _room(limits), head)
    return to_send(converted, size_max), converted.is_whole and size_max is None


def _join(
    partition: Partition,
    records: FileRecords,
    up_to: int,
    limits: Limits,
    magic: int,
    policy: ConversionPolicy,
    sends: list[Send],
    end_of: Callable[[FileRecords], int | None] = end_offset_of,
) -> int:
    """Adds what follows in the next segments, as far as it fits. Returns how many bytes of
    the log that is. `end_of`: the offset after the last batch of `records`.

    Damage there is reported to the next fetch, which begins with it."""
    size = used = records.size
    try:
        while joins_more(used, limits.max_bytes - used):
            end, end_of = end_of(records), end_offset_of
            if end is None or end >= up_to:
                break
            records = partition.read(end, limits.max_bytes - used, up_to)
            if not 0 < records.size <= limits.max_bytes - used:
                break
            converted = convert_range(records, magic, end, policy, None)
            used += records.size
            if converted.size:
                sends.append(to_send(converted))
            if not converted.is_whole:
                break
    except (RecordsError, StorageError, OSError):
        pass
    return used - size
