import asyncio
import errno
import logging
import socket

import pytest

from downconvert.gateway.network import accepting
from downconvert.gateway.network.accepting import Accepting
from tests.ports import LOOPBACK


class Exhausted(socket.socket):
    """A listener whose process has no descriptors for the first clients."""

    failures = 2

    def accept(self) -> tuple[socket.socket, object]:
        if self.failures:
            self.failures -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return super().accept()


def test_accepting_resumes_when_descriptors_are_free_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(accepting, "PAUSE", 0.001)

    async def accepted() -> str:
        listening = Exhausted()
        listening.setblocking(False)
        listening.bind((LOOPBACK, 0))
        listening.listen(5)
        welcomed: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        def welcome(channel: socket.socket, address: str) -> None:
            assert not channel.getblocking()
            channel.close()
            welcomed.set_result(address)

        taking = Accepting(asyncio.get_running_loop(), listening, welcome)
        with socket.create_connection(taking.address):
            try:
                return await asyncio.wait_for(welcomed, 30)
            finally:
                taking.close()

    with caplog.at_level(logging.ERROR, "downconvert.gateway"):
        assert asyncio.run(accepted()) == LOOPBACK
    assert sum("no client is accepted" in record.getMessage() for record in caplog.records) == 2


def test_connected_clients_have_turns_between_new_ones() -> None:
    count = 3 * accepting.A_TURN + 1
    turns: list[int] = []

    async def accept_all() -> None:
        loop, welcomed = asyncio.get_running_loop(), 0
        listening = socket.create_server((LOOPBACK, 0), backlog=count)
        listening.setblocking(False)

        def welcome(channel: socket.socket, _: str) -> None:
            nonlocal welcomed
            channel.close()
            welcomed += 1

        taking = Accepting(loop, listening, welcome)
        clients = [socket.create_connection(taking.address) for _ in range(count)]
        while sum(turns) < count:
            before = welcomed
            await asyncio.sleep(0)
            turns.append(welcomed - before)
        taking.close()
        for client in clients:
            client.close()

    asyncio.run(asyncio.wait_for(accept_all(), 30))
    assert max(turns) == accepting.A_TURN


def test_a_listener_that_is_closed_in_a_pause_accepts_nobody_afterwards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(accepting, "PAUSE", 0.02)
    defects: list[dict[str, object]] = []

    async def close_in_a_pause() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: defects.append(context))
        listening = Exhausted()
        listening.setblocking(False)
        listening.bind((LOOPBACK, 0))
        listening.listen(5)
        taking = Accepting(loop, listening, lambda *_: None)
        with socket.create_connection(taking.address):
            while listening.failures == Exhausted.failures:
                await asyncio.sleep(0)
            taking.close()
            await asyncio.sleep(3 * accepting.PAUSE)

    asyncio.run(asyncio.wait_for(close_in_a_pause(), 30))
    assert defects == []


def test_no_client_is_accepted_during_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """The system would say for each that waits, in each turn of the loop, that nothing is left."""
    monkeypatch.setattr(accepting, "PAUSE", 600.0)

    async def wait_in_the_pause() -> int:
        listening = Exhausted()
        listening.failures = 1000
        listening.setblocking(False)
        listening.bind((LOOPBACK, 0))
        listening.listen(5)
        taking = Accepting(asyncio.get_running_loop(), listening, lambda *_: None)
        with socket.create_connection(taking.address):
            while listening.failures == 1000:
                await asyncio.sleep(0)
            for _ in range(50):
                await asyncio.sleep(0.001)
            taking.close()
        return 1000 - listening.failures

    assert asyncio.run(asyncio.wait_for(wait_in_the_pause(), 30)) == 1
