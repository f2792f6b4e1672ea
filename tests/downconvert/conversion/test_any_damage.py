"""Damage and refusals are the same errors at the same places, however a log is converted.

A log of arbitrary batches is damaged at random, and lies somewhere in a file. Chunks of any size,
records in memory, in a file or behind a reader, promised or not: the same messages come first, and
the error has the same words and the same position."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from downconvert import AbortedTransaction, LazyDownConvertRecords, convert
from downconvert.conversion import made, plan
from downconvert.conversion.send import LazyDownConvertSend
from records import Records, RecordsError
from tests.damage import mutated
from tests.downconvert.promises.any_log import any_log
from tests.downconvert.promises.clients import CHUNK_SIZES, any_policy
from tests.downconvert.promises.limits import any_limits

from .channels import RandomSizes, until_error
from .comparable import comparable
from .parts import parts
from .ways import RUNS_ONCE

pytestmark = RUNS_ONCE

LOGS = 150  # of each test
CODECS = ("gzip", "snappy", "lz4", "zstd")


class Case:
    """A damaged log, and how a client asks for it."""

    sources: tuple[Records, ...]

    def __init__(self, random: Random, *, may_refuse: bool) -> None:
        log = any_log(random, is_large=False)
        data = log.data if random.random() < 0.2 else mutated(log.data, random)
        self.data = data
        is_committed = random.random() < 0.3
        policy = any_policy(random, is_kafka=False, is_committed=is_committed)
        refused = {codec for codec in CODECS if may_refuse and random.random() < 0.1}
        recode = dict.fromkeys(refused, "refuse")
        self.policy = replace(policy, wrapper_size_max=None, recode={**policy.recode, **recode})
        self.to_magic = random.choice((0, 1, 1))
        self.aborted: tuple[AbortedTransaction, ...] = log.aborted if is_committed else ()
        offsets = [each[0] for each in log.truth] or [0]
        self.offset = random.choice((0, random.choice(offsets)))

    def converted(self, source: Records, chunk_size: int) -> tuple[bytes, RecordsError | None]:
        policy = replace(self.policy, chunk_size=chunk_size)
        options: Any = {"aborted": self.aborted}
        return until_error(convert(source, self.to_magic, self.offset, policy, **options))

    def lazy(self, source: Records, **changes: Any) -> LazyDownConvertRecords:
        policy = replace(self.policy, **changes)
        return LazyDownConvertRecords(
            source, self.to_magic, self.offset, policy, aborted=self.aborted
        )


def cases(name: str, directory: Path, *, may_refuse: bool = True) -> Iterator[tuple[Random, Case]]:
    for number in range(LOGS):
        random = Random(f"{name} {number}")
        case = Case(random, may_refuse=may_refuse)
        with parts(case.data, directory, random) as case.sources:
            yield random, case


def told(error: RecordsError | None) -> tuple[type, str]:
    return type(error), str(error)


def messages_in(good: bytes) -> list[Any]:
    """Damaged messages that the client can read are copied. Those are compared as they are."""
    try:
        return list(comparable(good))
    except RecordsError:
        return [good]


def test_chunks_of_any_size_convert_to_the_same_messages_and_the_same_error(
    tmp_path: Path,
) -> None:
    for random, case in cases("chunks", tmp_path):
        outcomes = []
        for source in case.sources:
            for chunk_size in {CHUNK_SIZES[-1], random.choice(CHUNK_SIZES)}:
                good, error = case.converted(source, chunk_size)
                outcomes.append((messages_in(good), told(error)))
        assert all(outcome == outcomes[0] for outcome in outcomes)


def until_failure(send: LazyDownConvertSend, random: Random) -> tuple[bytes, RecordsError | None]:
    """The bytes written, and the error. Later calls raise the same error."""
    channel = RandomSizes(random.randrange(100))
    budgets = random.choice(((None,), (None, 1, 1_000, 1 << 20)))
    try:
        while not send.completed:
            send.write_to(channel, random.choice(budgets))
    except RecordsError as error:
        with pytest.raises(type(error)) as again:
            send.write_to(channel)
        return bytes(channel.taken), again.value
    return bytes(channel.taken), None


@pytest.mark.parametrize("size", ["exact", "estimate"])
def test_a_send_and_a_conversion_agree_until_the_same_error(
    size: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An exact range ends before an error, an estimate fails at it. (Where a codec is refused, an
    estimate leaves out the chunk with that batch, as Kafka does.)"""
    outcomes = Counter[str]()
    for random, case in cases(size, tmp_path, may_refuse=size == "exact"):
        with monkeypatch.context() as patch:
            any_limits(random, patch)
            enough = plan.ENOUGH
            good, error = case.converted(case.sources[0], CHUNK_SIZES[-1])
            patch.setattr(made.budget, "left", random.choice((0, 1_000, made.budget.left)))
            source, chunk_size = random.choice(case.sources), random.choice(CHUNK_SIZES)
            lazy, refused = None, None
            try:
                lazy = case.lazy(source, chunk_size=chunk_size, size=size)
            except RecordsError as raised:
                refused = raised
            if lazy is None:
                assert told(refused) == told(error)
                assert size == "estimate" or not good  # else all of the first batch is measured
                outcomes["refused"] += 1
                continue
            send = lazy.to_send(random.choice((None, lazy.size, lazy.size // 2)))
            response, failure = until_failure(send, random)
        messages = len(response) - send.stats.filler_bytes
        assert good.startswith(response[:messages])
        if failure is not None:
            assert (told(failure), size) == (told(error), "estimate")
            assert (response, send.completed) == (good, False)
            outcomes["failed"] += 1
        elif size == "exact":
            assert send.size == len(response) == messages
            assert lazy.size or not error
            assert case.policy.trim_compressed or lazy.is_whole == (error is None)
            if lazy.size < enough:
                assert told(lazy.damage) == told(error)
                assert (lazy.size, lazy.is_whole) == (len(good), error is None)
            elif lazy.is_whole or lazy.damage:
                assert (lazy.size, told(lazy.damage)) == (len(good), told(error))
            outcomes["damaged" if lazy.damage else "whole" if lazy.is_whole else "a part"] += 1
        else:
            outcomes["estimated"] += 1
    assert min(outcomes.values()) >= 3
    assert len(outcomes) == (4 if size == "exact" else 3)
