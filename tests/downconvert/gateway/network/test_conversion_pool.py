"""The threads that do work, and the amount of it at a time. It is counted, and not timed."""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from time import thread_time
from typing import Any

import pytest

from downconvert import LazyDownConvertRecords, LazyDownConvertSend
from downconvert.broker import Broker
from downconvert.conversion.recode import LazyRecodedRecords, LazyRecodedSend
from downconvert.conversion.streamed.body import DecompressedBody
from downconvert.gateway.network import connection, delivery
from downconvert.gateway.network.conversion_pool import (
    AGAIN,
    NAME,
    TURNS_MAX,
    ConversionPool,
    TimedPool,
)
from downconvert.gateway.session import producing, turns
from downconvert.gateway.session.exchanges import Ask, Turn
from downconvert.protocol.schemas import ApiKey
from records import Codec, Record, TimestampType
from records.batches.builder import build
from records.formats import V2
from tests.downconvert.broker.asking import frame
from tests.downconvert.gateway.cluster import Through, append
from tests.downconvert.gateway.serving import Wire, cluster, gateway
from tests.downconvert.gateway.talk import fetch_body, message_set, produce_body, values_of
from tests.downconvert.storage.logs import batch

LARGE = 60_000  # bytes of a record
BOMB = 30_000_000  # bytes of a record that take little room in a batch
EVENT_LOOP = ""  # what the name of its thread begins with


def dense(offset: int, codec: Codec, size: int = LARGE) -> bytes:
    """A batch that no codec makes smaller."""
    value = Random(offset).randbytes(size)
    return build([Record(offset, 0, TimestampType.CREATE, None, value)], magic=V2, codec=codec)


class Threads:
    """Counts on which threads functions are called."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._patch = patch
        self.calls = Counter[str]()

    def watch(self, owner: Any, name: str) -> None:
        called: Callable[..., Any] = getattr(owner, name)

        def counted(*args: Any, **options: Any) -> Any:
            self.calls[threading.current_thread().name.rpartition("_")[0]] += 1
            return called(*args, **options)

        self._patch.setattr(owner, name, counted)


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> Threads:
    return Threads(monkeypatch)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
@pytest.mark.parametrize("count", [2, 20])
def test_fetches_are_measured_kept_and_converted_in_the_pool(
    tmp_path: Path, threads: Threads, codec: Codec, count: int
) -> None:
    with cluster(tmp_path, "t") as (broker, port), gateway(port) as running:
        append(broker, *(dense(n, codec) for n in range(count)))
        threads.watch(LazyDownConvertRecords, "to_send")
        threads.watch(LazyDownConvertSend, "write_to")
        with Wire(running.address) as client:
            response = client.ask(ApiKey.Fetch, 1, fetch_body(0, max_bytes=1 << 22))
    assert values_of(response.responses[0].partitions[0])
    assert set(threads.calls) == {NAME}


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_a_small_fetch_is_converted_by_the_event_loop(
    tmp_path: Path, threads: Threads, monkeypatch: pytest.MonkeyPatch, codec: Codec
) -> None:
    monkeypatch.setattr(connection, "INLINE_SECONDS", 60.0)  # however busy the machine is
    monkeypatch.setattr(delivery, "INLINE_SECONDS", 60.0)
    with cluster(tmp_path, "t") as (broker, port), gateway(port) as running:
        append(broker, dense(0, codec, 10_000))
        threads.watch(LazyDownConvertRecords, "to_send")
        threads.watch(LazyDownConvertSend, "write_to")
        with Wire(running.address) as client:
            response = client.ask(ApiKey.Fetch, 1, fetch_body(0))
    assert len(values_of(response.responses[0].partitions[0])) == 1
    assert set(threads.calls) == {EVENT_LOOP}


def test_a_small_fetch_that_takes_long_goes_on_in_the_pool(
    tmp_path: Path, threads: Threads
) -> None:
    with cluster(tmp_path, "t") as (broker, port), gateway(port) as running:
        append(broker, batch(0, codec=Codec.GZIP, size=BOMB))
        threads.watch(DecompressedBody, "fill")
        with Wire(running.address) as client:
            response = client.ask(ApiKey.Fetch, 1, fetch_body(0, max_bytes=1 << 22))
    assert [len(value) for value in values_of(response.responses[0].partitions[0])] == [BOMB]
    assert threads.calls[EVENT_LOOP] < threads.calls[NAME] / 4


def test_another_codec_is_made_in_the_pool(tmp_path: Path, threads: Threads) -> None:
    with cluster(tmp_path, "t") as (broker, port), gateway(port) as running:
        append(broker, dense(0, Codec.ZSTD), dense(1, Codec.ZSTD))
        threads.watch(LazyRecodedRecords, "_add")
        threads.watch(LazyRecodedSend, "write_to")
        with Wire(running.address) as client:
            response = client.ask(ApiKey.Fetch, 4, fetch_body(0, max_bytes=1 << 22))
    assert len(values_of(response.responses[0].partitions[0])) == 2
    assert set(threads.calls) == {NAME}


def test_records_of_old_producers_are_converted_in_the_pool(
    tmp_path: Path, threads: Threads
) -> None:
    with cluster(tmp_path, "t") as (_, port), gateway(port) as running:
        threads.watch(producing, "prepare")
        with Wire(running.address) as client:
            records = message_set(0, b"a" * LARGE, codec=Codec.GZIP)
            client.ask(ApiKey.Produce, 0, produce_body(records))
    assert threads.calls == {NAME: 1}


def test_a_turn_has_no_more_records_than_it_may(
    broker: Broker, through: Through, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that fetches much gives way to others."""
    append(broker, *(batch(n, size=LARGE) for n in range(200)))
    of_turns: list[int] = []
    in_steps = LazyDownConvertRecords.in_steps

    def counted(*args: Any, **options: Any) -> Any:
        steps = in_steps(*args, **options)
        while True:
            try:
                work = next(steps)
            except StopIteration as end:
                return end.value
            of_turns[-1] += work
            yield work

    monkeypatch.setattr(LazyDownConvertRecords, "in_steps", counted)
    request = frame(ApiKey.Fetch, 1, fetch_body(0, max_bytes=1 << 24))
    steps = through.session.exchange(memoryview(request), len(request), 0.0)
    result: Any = None
    while True:
        try:
            asked = steps.send(result)
        except StopIteration as end:
            reply = end.value
            break
        if isinstance(asked, Turn):
            of_turns.append(0)
        elif isinstance(asked, Ask):
            result = through.response(asked, request)
    assert sum(of_turns) > 4 * turns.WORK_A_TURN
    assert max(of_turns) < 2 * turns.WORK_A_TURN
    (records,) = reply.send.records
    assert len(getattr(records, "parts", (records,))) == 1, "a slow client costs one send"


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_where_nobody_else_waits_a_response_takes_one_hand_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, codec: Codec
) -> None:
    """Each return of a job from a thread costs the event loop as much as a small request."""
    runs: list[str] = []
    run = TimedPool.run
    monkeypatch.setattr(delivery, "WAIT_MS", 10_000)  # however busy the machine is

    async def counted(self: TimedPool, turn: Any) -> Any:
        runs.append(turn.__name__)
        return await run(self, turn)

    with cluster(tmp_path, "t") as (broker, port), gateway(port) as running:
        append(broker, *(dense(n, codec) for n in range(20)))
        with Wire(running.address, SO_RCVBUF=1 << 22) as client:
            client.ask(ApiKey.Fetch, 1, fetch_body(0, max_bytes=1 << 22))
            monkeypatch.setattr(TimedPool, "run", counted)
            response = client.ask(ApiKey.Fetch, 1, fetch_body(0, max_bytes=1 << 22))
    assert len(values_of(response.responses[0].partitions[0])) >= (5 if codec else 20)
    assert runs == ["_run"]


def test_turns_follow_each_other_while_no_other_job_waits() -> None:
    async def main() -> None:
        pool = ConversionPool(threads=1)
        begun, may_end = threading.Event(), threading.Event()

        def first() -> bool:
            begun.set()
            may_end.wait()
            return pool.may_continue(1)

        jobs = [asyncio.create_task(pool.run(first))]
        await asyncio.to_thread(begun.wait)
        assert pool.may_continue(1)
        assert not pool.may_continue(TURNS_MAX), "a gateway that ends waits for them"
        jobs += [asyncio.create_task(pool.run(may_end.is_set)) for _ in range(2)]
        await asyncio.sleep(0)
        assert not pool.may_continue(1)
        jobs[2].cancel()
        await asyncio.wait(jobs[2:])
        assert jobs[2].cancelled()
        assert not pool.may_continue(1), "one of them still waits"
        may_end.set()
        assert await asyncio.gather(*jobs[:2]) == [False, True]
        async with asyncio.timeout(30):
            while not pool.may_continue(1):  # the thread drops the cancelled one
                await asyncio.sleep(0.001)
        pool.close()

    asyncio.run(main())


def test_jobs_take_turns() -> None:
    """A connection with many jobs queues behind one with few."""
    done: list[str] = []

    async def job(pool: ConversionPool, name: str, count: int) -> None:
        for _ in range(count):
            await pool.run(lambda: done.append(name))

    async def main() -> None:
        pool = ConversionPool(threads=1)
        await asyncio.gather(job(pool, "long", 50), job(pool, "short", 2))
        pool.close()

    asyncio.run(main())
    assert done.index("short") < 3
    assert [n for n, name in enumerate(done) if name == "short"][-1] < 6


def test_the_turns_of_one_connection_are_timed_wherever_they_run() -> None:
    """Waiting for a thread is no work."""

    def work() -> None:
        began = thread_time()
        while thread_time() - began < 0.05:
            pass

    async def main() -> None:
        pool = ConversionPool(threads=1)
        mine, other = TimedPool(pool), TimedPool(pool)
        await asyncio.gather(mine.run(work), other.run(work), other.run(work))
        mine.here(work)
        assert 0.1 <= mine.spent() < 0.2
        assert mine.spent() == 0
        pool.close()

    asyncio.run(main())


def test_a_job_that_has_not_ended_queues_behind_the_others() -> None:
    done: list[str] = []
    may_begin = threading.Event()

    def turn(name: str, count: int) -> object:
        may_begin.wait()
        done.append(name)
        return AGAIN if done.count(name) < count else name

    async def main() -> list[object]:
        pool = ConversionPool(threads=1)
        jobs = [
            asyncio.create_task(pool.run(lambda: turn("long", 4))),
            asyncio.create_task(pool.run(lambda: turn("short", 2))),
        ]
        await asyncio.sleep(0)
        may_begin.set()
        found = await asyncio.gather(*jobs)
        pool.close()
        return found

    assert asyncio.run(main()) == ["long", "short"]
    assert done == ["long", "short", "long", "short", "long", "long"]


def test_a_cancelled_job_takes_no_further_turn() -> None:
    begun, may_end, turns = threading.Event(), threading.Event(), []

    def turn() -> object:
        begun.set()
        may_end.wait()
        turns.append(1)
        return AGAIN

    async def main() -> None:
        pool = ConversionPool(threads=1)
        job = asyncio.create_task(pool.run(turn))
        await asyncio.to_thread(begun.wait)
        job.cancel()
        await asyncio.sleep(0)
        may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await job
        pool.close()

    asyncio.run(main())
    assert turns == [1]
