"""The batches that are known of a producer, beside those in the log."""

from downconvert.broker.sequences import BATCHES_KEPT, PRODUCERS_MAX, Sequences
from downconvert.storage.producers.producer_state import ProducerState
from records import BatchHeader, MemoryRecords, Record, TimestampType, build
from records.formats import V2


def header(sequence: int, producer: int = 5, epoch: int = 0) -> BatchHeader:
    """The header of a batch of one record."""
    record = Record(0, 1000, TimestampType.CREATE, b"k")
    data = build(
        [record],
        magic=V2,
        producer_id=producer,
        producer_epoch=epoch,
        base_sequence=sequence,
    )
    return next(MemoryRecords(data).batches())


def state(sequence: int, offset: int, producer: int = 5) -> ProducerState:
    """A producer whose last batch has this sequence number and offset."""
    return ProducerState(
        producer, 0, last_sequence=sequence, last_offset=offset, offset_delta=0, timestamp=1000
    )


def test_batches_of_a_producer_that_expired_are_forgotten() -> None:
    """A producer that the log has forgotten begins without known batches."""
    sequences = Sequences()
    sequences.add_batch(header(0), 10)
    assert sequences.duplicate_of(header(0), {}) is None
    assert len(sequences) == 0


def test_a_producer_that_writes_again_is_not_the_first_to_be_forgotten() -> None:
    """The producer that has written nothing for longest loses its known batches."""
    sequences = Sequences()
    first = header(0, 0)
    for producer in range(PRODUCERS_MAX):
        sequences.add_batch(first._replace(producer_id=producer), producer)
    last = PRODUCERS_MAX
    sequences.add_batch(header(1, 0), last)
    sequences.add_batch(header(0, last), last + 1)
    assert len(sequences) == PRODUCERS_MAX
    known = sequences.duplicate_of(header(0, 0), {0: state(1, last, producer=0)})
    assert known is not None
    assert known.base_offset == 0


def test_no_more_batches_are_known_than_may_be_in_flight() -> None:
    """A producer's known batches are its last five."""
    sequences = Sequences()
    for sequence in range(BATCHES_KEPT + 1):
        sequences.add_batch(header(sequence), sequence)
    producers = {5: state(BATCHES_KEPT, BATCHES_KEPT)}
    known = [sequences.duplicate_of(header(n), producers) for n in range(1, BATCHES_KEPT + 1)]
    assert [one and one.base_offset for one in known] == list(range(1, BATCHES_KEPT + 1))
