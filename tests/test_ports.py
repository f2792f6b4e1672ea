"""Ports for servers: nobody else chooses one before its server listens."""

import socket

import pytest

from .ports import CLAIMS_MAX, LOOPBACK, free_ports


def test_no_other_process_gets_a_port_whose_server_does_not_listen_yet() -> None:
    (port, *_) = free_ports(CLAIMS_MAX)
    with socket.socket() as another, pytest.raises(OSError, match="in use"):
        another.bind((LOOPBACK, port))


@pytest.mark.parametrize("host", [LOOPBACK, "0.0.0.0"])
def test_one_server_listens_at_a_port_and_before_that_nobody_does(host: str) -> None:
    (port,) = free_ports(1)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((LOOPBACK, port))
    with socket.create_server((host, port)):
        socket.create_connection((LOOPBACK, port), timeout=60).close()
        with pytest.raises(OSError, match="in use"):
            socket.create_server((host, port))
