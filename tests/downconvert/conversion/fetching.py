"""A client that fetches until it has everything."""

from downconvert import ConversionPolicy, LazyDownConvertRecords
from records import MemoryRecords, Record, read

from .channels import sent


def fetched(
    data: bytes,
    to_magic: int,
    offset: int,
    policy: ConversionPolicy,
    *,
    fetch_size: int | None = None,
) -> list[Record]:
    """All records from an offset on, as a client gets them: each fetch is answered from the batch
    that holds the offset after the last record, with at least that batch."""
    log = MemoryRecords(data)
    found: list[Record] = []
    batches = list(log.batches())
    while True:
        first = next((each for each in batches if each.last_offset >= offset), None)
        if first is None:
            return found
        part = log.slice(first.position, max(fetch_size or log.size, first.size))
        lazy = LazyDownConvertRecords(part, to_magic, offset, policy)
        response = sent(lazy.to_send())
        assert len(response) == lazy.size
        records = [each for each in read(MemoryRecords(response)) if each.offset >= offset]
        if records:
            found += records
            offset = records[-1].offset + 1
        else:  # whoever answers reads on; untrimmed, behind a batch that ends in what is no more
            assert not response or not policy.trim_compressed
            offset = list(part.batches())[-1].last_offset + 1
