"""Comparing a log with its plan before it is judged."""

from types import SimpleNamespace
from typing import Any

import pytest

from downconvert.conformance.connection import ConformanceError
from downconvert.conformance.fetching import unlike_its_plan
from downconvert.conformance.plans import PLANS, Batch, Plan
from downconvert.conformance.writing import Written
from downconvert.protocol.schemas import ApiKey, Message
from records import Codec, Record, build

OLDER, NEWER = (
    tuple(Record(n, 1000 + n, key=b"%d" % n, value=value) for n in range(3))
    for value in (b"older", b"newer")
)
COMPACTED = Plan(
    "compacted",
    "the same keys in two batches",
    (Batch(Codec.NONE, OLDER), Batch(Codec.NONE, NEWER), Batch(Codec.NONE, NEWER)),
    {"cleanup.policy": "compact"},
)
STORED = Plan("stored-v1", "a log of v1", (Batch(Codec.NONE, OLDER),), {}, magic=1)


def log(first: int, *records: Record, magic: int = 2) -> bytes:
    moved = [Record(first + r.offset, r.timestamp, key=r.key, value=r.value) for r in records]
    return bytes(build(moved, magic=magic))


class Logs:
    """A cluster whose log is another at each look; each fetch is answered with one batch."""

    def __init__(self, *looks: list[bytes], error_code: int = 0) -> None:
        self.left = list(looks)
        self.error_code = error_code
        self.batches: list[bytes] = []

    def offers(self, _: ApiKey) -> range:
        return range(4, 12)

    def at(self, _: object) -> "Logs":
        return self

    def ask(self, _: ApiKey, _version: int, body: Message) -> Any:
        [part] = body.topics[0].partitions
        if part.fetch_offset == 0:
            self.batches = list(self.left.pop(0) if len(self.left) > 1 else self.left[0])
        data = self.batches.pop(0) if self.batches else b""
        one = SimpleNamespace(error_code=self.error_code, records=data, high_watermark=9)
        return SimpleNamespace(responses=[SimpleNamespace(partitions=[one])])


def unlike(plan: Plan, *looks: list[bytes], seconds: float = 60.0, error_code: int = 0) -> str:
    logs: Any = Logs(*looks, error_code=error_code)
    offsets = tuple(3 * number for number in range(len(plan.batches)))
    return unlike_its_plan(logs, Written(plan, "t", bytes(16), ("b", 1), offsets, 200), seconds)


WHOLE = [log(0, *OLDER), log(3, *NEWER), log(6, *NEWER)]
LEFT = WHOLE[1:]


def test_the_judge_waits_for_the_cleaner(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr("downconvert.conformance.fetching.time.sleep", waited.append)
    assert unlike(COMPACTED, WHOLE, WHOLE, LEFT) == ""
    assert len(waited) == 2


def test_an_uncompacted_topic_is_reported_and_a_partly_compacted_one_judged() -> None:
    assert unlike(COMPACTED, WHOLE, seconds=0) == "it was not compacted within 0 s"
    in_part = [log(0, OLDER[1]), *WHOLE[1:]]
    assert unlike(COMPACTED, in_part, seconds=0) == ""


def test_a_format_that_the_broker_does_not_store_is_reported() -> None:
    assert unlike(STORED, [log(0, *OLDER)]) == "the broker stores v2 only"
    assert unlike(STORED, [log(0, *OLDER, magic=1)]) == ""


def test_a_log_that_cannot_be_read_is_an_error() -> None:
    with pytest.raises(ConformanceError, match="the log of t: error 6"):
        unlike(STORED, [], error_code=6)


def test_compaction_leaves_batches_with_one_record_and_with_none() -> None:
    [plan] = (plan for plan in PLANS if plan.is_compacted)
    latest = plan.latest()
    left = [
        sum((number, record.offset) in latest for record in batch.records)
        for number, batch in enumerate(plan.batches)
    ]
    assert set(left[:-1]) == {0, 1}
    assert left[-1] == 10
    everything = sum(len(batch.records) for batch in plan.batches)
    assert sum(left) < plan.compacted_count < everything
