"""Responses on their way: all of it, in order, whatever the client does, and nothing is held."""

import asyncio
import threading
import tracemalloc
from collections.abc import Callable
from contextlib import ExitStack
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from downconvert import LazyDownConvertRecords
from downconvert.gateway.config import Limits
from downconvert.gateway.network import delivery as module
from downconvert.gateway.network.conversion_pool import AGAIN, ConversionPool
from downconvert.gateway.network.delivery import pieces
from downconvert.gateway.network.sockets.streams import PIECE_SIZE
from downconvert.gateway.session.exchanges import TURN, Nothing, Steps, nothing
from downconvert.protocol.requests import RequestHeader
from downconvert.protocol.responses import ResponseSend, response
from downconvert.protocol.schemas import ApiKey, Message
from records import MemoryRecords
from records.units import KiB
from tests.downconvert.broker.asking import parsed
from tests.downconvert.gateway.cluster import append
from tests.downconvert.gateway.hanging import Hanging
from tests.downconvert.gateway.serving import Wire, cluster, gateway, over_tls
from tests.downconvert.gateway.talk import fetch_body, values_of
from tests.downconvert.storage.logs import batch
from tests.waiting import wait_for

COUNT, SIZE = 40, 50_000  # records: 2 MB
OLD = 3  # a version of Fetch that needs conversion
LEFT = 300_000  # bytes of a response that arrive


def answer(batches: int = 6) -> ResponseSend:
    """About 90 KB a batch."""
    ten = (range(10 * n, 10 * n + 10) for n in range(batches))
    log = MemoryRecords(b"".join(batch(*offsets, size=9000) for offsets in ten))
    send = LazyDownConvertRecords(log, 1).to_send()
    partition = Message(partition_index=0, records=send, aborted_transactions=None)
    body = Message(responses=[Message(topic="t", partitions=[partition])])
    return response(RequestHeader(ApiKey.Fetch, 3, 1, None, 0), body)


def test_pieces_are_the_whole_response() -> None:
    whole = BytesIO()
    send = answer()
    while not send.completed:
        send.write_to(whole)
    found = [bytes(piece) for piece in pieces(answer())]
    assert b"".join(found) == whole.getvalue()
    assert len(found) > 1
    assert {len(piece) for piece in found[:-1]} == {PIECE_SIZE}


def test_a_piece_that_was_yielded_is_released() -> None:
    send = answer(batches=40)
    tracemalloc.start()
    try:
        count = sum(1 for _ in pieces(send))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert count > 50
    assert peak < 5 * PIECE_SIZE


def body() -> Message:
    return fetch_body(0, max_bytes=1 << 23)


def count(answer: Message) -> int:
    return len(values_of(answer.responses[0].partitions[0]))


def test_a_response_that_is_converted_for_a_plain_client_is_never_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "Piece", None)  # who made one would call it
    with cluster(tmp_path, "t") as (broker, port), gateway(port) as running:
        append(broker, *(batch(offset, size=SIZE) for offset in range(COUNT)))
        with Wire(running.address) as client:
            for _ in range(2):
                assert count(client.ask(ApiKey.Fetch, OLD, body())) == COUNT


def test_a_large_response_over_tls_has_all_records(tmp_path: Path) -> None:
    with over_tls(tmp_path) as (broker, client):
        append(broker, *(batch(offset, size=SIZE) for offset in range(COUNT)))
        assert count(client.ask(ApiKey.Fetch, OLD, body())) == COUNT


def test_a_slow_client_gets_all_of_it_and_what_comes_after(tmp_path: Path) -> None:
    with cluster(tmp_path, "t") as (broker, port), gateway(port) as running:
        append(broker, *(batch(offset, size=SIZE) for offset in range(COUNT)))
        with Wire(running.address, SO_RCVBUF=64 * KiB) as client:
            client.send(ApiKey.Fetch, OLD, body())
            client.send(ApiKey.Metadata, 1, Message(topics=None))
            whole = client.receive_slowly(30_001)
            assert count(parsed(ApiKey.Fetch, OLD, whole)) == COUNT
            assert parsed(ApiKey.Metadata, 1, client.receive()).topics


def test_a_client_that_leaves_within_a_response_frees_its_place(tmp_path: Path) -> None:
    with cluster(tmp_path, "t") as (broker, port), gateway(port) as running:
        append(broker, *(batch(offset, size=SIZE) for offset in range(COUNT)))
        with Wire(running.address, SO_RCVBUF=4096) as client:
            client.send(ApiKey.Fetch, OLD, body())
            client.take(1000)
        wait_for(lambda: len(running.places) == 0)
        wait_for(lambda: bool(running.figures().ends["client_closed"]))


def test_a_stalled_client_holds_no_thread(tmp_path: Path) -> None:
    """More clients stall than there are threads. Another one is served meanwhile."""
    limits = Limits(memory=1 << 26)
    with (
        cluster(tmp_path, "t") as (broker, port),
        gateway(port, limits=limits) as running,
        ExitStack() as stack,
    ):
        append(broker, *(batch(offset, size=SIZE) for offset in range(10 * COUNT)))
        stalled = [
            stack.enter_context(Wire(running.address, SO_RCVBUF=4096))
            for _ in range(2 * running.pool.threads)
        ]
        for one in stalled:
            one.send(ApiKey.Fetch, OLD, fetch_body(0, max_bytes=1 << 23))
            one.take(1)
        with Wire(running.address) as client:
            assert count(client.ask(ApiKey.Fetch, OLD, fetch_body(9 * COUNT))) > 0
        assert running.budget.held > 0
        for one in stalled:
            one.socket.close()
        wait_for(lambda: running.budget.held == 0)


@pytest.mark.parametrize("is_busy", [True, False])
@pytest.mark.parametrize("memory", [0, 1 << 24], ids=["in a file", "in memory"])
def test_a_response_that_arrives_slowly_is_received_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, memory: int, is_busy: bool
) -> None:
    """Its thread gives it back to the event loop, again and again."""
    if is_busy:
        monkeypatch.setattr(ConversionPool, "may_continue", lambda _pool, _turns: False)
    with (
        cluster(tmp_path, "t") as (broker, port),
        Hanging(port) as between,
        gateway(between.port, limits=Limits(memory=memory)) as running,
    ):
        append(broker, *(batch(offset, size=SIZE) for offset in range(COUNT)))
        between.pause = 0.01
        with Wire(running.address) as client:
            assert count(client.ask(ApiKey.Fetch, OLD, body())) == COUNT
            assert client.ask(ApiKey.Metadata, 1, Message(topics=None)).topics


@pytest.mark.parametrize("way", ["ends", "is silent"])
def test_a_response_that_stops_in_its_midst_ends_the_connection(tmp_path: Path, way: str) -> None:
    limits = Limits(request_timeout=1.0 if way == "is silent" else 60.0)
    with (
        cluster(tmp_path, "t") as (broker, port),
        Hanging(port) as between,
        gateway(between.port, limits=limits) as running,
        Wire(running.address) as client,
    ):
        append(broker, *(batch(offset, size=SIZE) for offset in range(COUNT)))
        assert client.ask(ApiKey.Metadata, 1, Message(topics=None)).topics
        between.left = LEFT
        client.send(ApiKey.Fetch, OLD, body())
        wait_for(lambda: between.left == 0)
        if way == "ends":
            between.drop()
        assert client.has_ended()
        wait_for(lambda: bool(running.figures().ends["broker_failed"]))
        wait_for(lambda: running.budget.held == 0)


def test_a_client_that_leaves_while_its_response_arrives_is_noticed(tmp_path: Path) -> None:
    with (
        cluster(tmp_path, "t") as (broker, port),
        Hanging(port) as between,
        gateway(between.port) as running,
    ):
        append(broker, *(batch(offset, size=SIZE) for offset in range(COUNT)))
        with Wire(running.address) as client:
            assert client.ask(ApiKey.Metadata, 1, Message(topics=None)).topics
            between.left = LEFT
            client.send(ApiKey.Fetch, OLD, body())
            wait_for(lambda: running.budget.held > 0)
        wait_for(lambda: len(running.places) == 0)
        wait_for(lambda: running.budget.held == 0)
        assert running.figures().ends["client_closed"]


def test_a_cancelled_connection_waits_for_its_turn_under_way() -> None:
    """The socket is closed only after its last write, so its descriptor belongs to nobody else."""
    begun, may_end, ended = threading.Event(), threading.Event(), []

    def turn() -> None:
        begun.set()
        may_end.wait()
        ended.append(True)

    async def cancelled() -> None:
        pool = ConversionPool(1)
        job = asyncio.create_task(pool.run(turn))
        await asyncio.to_thread(begun.wait)
        job.cancel()
        await asyncio.sleep(0.01)
        assert not job.done()
        may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await job
        assert ended
        pool.close()

    asyncio.run(cancelled())


def test_a_job_goes_on_as_long_as_the_pool_lets_it() -> None:
    """The pool learns how many turns a job had in a row, so that other jobs have theirs."""
    counted: list[int] = []
    again: list[bool] = []

    class Pool:
        async def run(self, job: Callable[[], object]) -> None:
            while job() is AGAIN:
                again.append(True)

        def may_continue(self, turns: int) -> bool:
            counted.append(turns)
            return turns < 3

    def steps() -> Steps:
        for _ in range(7):
            yield TURN
        return Nothing()

    client: Any = None
    pool: Any = Pool()
    step = asyncio.run(module.Delivery(client, pool).advance(steps(), nothing))
    assert isinstance(step, Nothing)
    assert counted == [1, 2, 3, 1, 2, 3, 1]
    assert len(again) == 2
