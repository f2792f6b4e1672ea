"""One fetch of a topic that was written, and the current state of its log.

Not here: judging the response (judge.py)."""

import time
from typing import Any, Final

from downconvert.protocol.schemas import ApiKey, Message
from records import MemoryRecords, RecordsError
from records.batches.reader import read_batch
from records.formats import V2
from records.units import MiB

from .connection import ConformanceError, named
from .writing import Cluster, Written

TOPIC_IDS_SINCE: Final = 13
WAIT: Final = 100  # milliseconds at the end of the log
LARGE: Final = MiB
PAUSE: Final = 0.5  # seconds between two checks whether a log has been compacted


def fetch(cluster: Cluster, written: Written, version: int, position: int, limit: int) -> Any:
    """The response for the one partition. ConformanceError: there is no response."""
    part = Message(partition=0, fetch_offset=position, partition_max_bytes=limit)
    by_id = version >= TOPIC_IDS_SINCE
    who = {"topic_id": written.id} if by_id else {"topic": written.name}
    body = Message(
        max_wait_ms=WAIT,
        min_bytes=1,
        max_bytes=max(limit, 1),
        topics=[Message(partitions=[part], **who)],
    )
    response: Any = cluster.at(written.leader).ask(ApiKey.Fetch, version, body)
    if not response.responses or not response.responses[0].partitions:
        raise ConformanceError(
            f"no response for the partition, {named(getattr(response, 'error_code', 0))}"
        )
    return response.responses[0].partitions[0]


def unlike_its_plan(cluster: Cluster, written: Written, seconds: float) -> str:
    """Why a log differs from its plan; empty if it does not. A cleaner gets `seconds`."""
    plan = written.plan
    if not plan.is_compacted and plan.magic == V2:
        return ""
    deadline = time.monotonic() + seconds
    while True:
        magics, count = _log(cluster, written)
        if plan.magic not in magics:
            return f"the broker stores v{max(magics, default=2)} only"
        if not plan.is_compacted or count <= plan.compacted_count:
            return ""
        if time.monotonic() > deadline:
            break
        time.sleep(PAUSE)
    everything = sum(len(batch.records) for batch in plan.batches)
    return f"it was not compacted within {seconds:g} s" if count == everything else ""


def _log(cluster: Cluster, written: Written) -> tuple[set[int], int]:
    """The formats in a log, and the number of its records."""
    newest = cluster.offers(ApiKey.Fetch)[-1]
    magics, count, position = set[int](), 0, 0
    for _ in written.plan.batches:  # a response may have only one segment
        response = fetch(cluster, written, newest, position, LARGE)
        if response.error_code:
            raise ConformanceError(f"the log of {written.name}: {named(response.error_code)}")
        log = MemoryRecords(bytes(response.records or b""))
        try:
            for header in log.batches():
                magics.add(header.magic)
                count += sum(1 for _ in read_batch(log, header, record_size_max=LARGE))
                position = max(position, header.last_offset + 1)
        except RecordsError as error:
            raise ConformanceError(f"the log of {written.name}: {error}") from None
        if position >= response.high_watermark:
            break
    return magics, count
