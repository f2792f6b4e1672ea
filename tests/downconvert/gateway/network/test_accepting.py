import asyncio
import errno
import logging
import socket

import pytest

from downconvert.gateway.network import accepting
from downconvert.gateway.network.accepting import Accepting
from tests.ports import LOOPBACK


class Exhausted(socket.socket):
    """Whose process has no more descriptors for the first clients."""

    failures = 2

    def accept(self) -> tuple[socket.socket, object]:
        if self.failures:
            self.failures -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return super().accept()


def test_where_nothing_is_left_it_goes_on_when_there_is(
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
