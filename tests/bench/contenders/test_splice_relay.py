"""A relay passes on all bytes and the end, both ways."""

import os
import socket
from threading import Thread

import pytest

from bench.contenders.splice_relay import relayed

SIZE = 1_000_000
pytestmark = pytest.mark.skipif(not hasattr(os, "splice"), reason="the system has no splice")


def test_all_bytes_arrive_both_ways_and_the_end_does() -> None:
    data = os.urandom(SIZE)

    def echo(listener: socket.socket) -> None:
        end, _ = listener.accept()
        with end:
            while piece := end.recv(100_000):
                end.sendall(piece)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        echoing = Thread(target=echo, args=(listener,))
        echoing.start()
        with (
            relayed(listener.getsockname()) as address,
            socket.create_connection(address, timeout=60) as client,
        ):
            sending = Thread(target=client.sendall, args=(data,))
            sending.start()
            got = bytearray()
            while len(got) < SIZE:
                got += client.recv(SIZE)
            sending.join()
            assert got == data
            client.shutdown(socket.SHUT_WR)
            echoing.join(60)
            assert not echoing.is_alive()
