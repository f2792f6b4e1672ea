"""A broker's addresses, which are tried one after the other."""

import asyncio
import socket
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from downconvert.gateway.config import GatewayConfig, Limits
from downconvert.gateway.network.conversion_pool import ConversionPool
from downconvert.gateway.network.ended import UnreachableError
from downconvert.gateway.network.upstream import Upstream, reach
from downconvert.gateway.topology import Address
from tests.downconvert.gateway.serving import cluster
from tests.ports import LOOPBACK, free_ports

from .test_upstream_steps import BROKER, CONNECT_TIMEOUT, REQUEST_TIMEOUT, framed


def closing(listener: socket.socket, said: bytes) -> None:
    while True:
        try:
            near, _ = listener.accept()
        except OSError:
            return
        near.sendall(said)
        near.close()


def run_reach(
    addresses: list[int], use: Callable[[Upstream], Coroutine[Any, Any, None]] | None = None
) -> list[tuple[int, str | None]]:
    """What is reported of each port."""
    reported: list[tuple[int, str | None]] = []
    limits = Limits(connect_timeout=CONNECT_TIMEOUT, request_timeout=REQUEST_TIMEOUT)
    config = GatewayConfig(bootstrap=(BROKER,), limits=limits)

    async def whole() -> None:
        pool = ConversionPool(1)
        try:
            found = await reach(
                tuple(Address(LOOPBACK, port) for port in addresses),
                config,
                None,
                lambda address, reason: reported.append((address.port, reason)),
                pool=pool,
            )
            if use is not None:
                await use(found)
            found.close()
        finally:
            pool.close()

    asyncio.run(whole())
    return reported


def test_addresses_are_tried_in_their_order_and_each_failure_is_told(tmp_path: Path) -> None:
    (closed,) = free_ports(1)
    with ExitStack() as stack:
        _, port = stack.enter_context(cluster(tmp_path, "t"))
        listeners = [stack.enter_context(socket.create_server((LOOPBACK, 0))) for _ in range(3)]
        silent, ends, talks = (one.getsockname()[1] for one in listeners)
        answers = b"", framed(7, bytes(30))
        for listener, said in zip(listeners[1:], answers, strict=True):
            Thread(target=closing, args=(listener, said), daemon=True).start()

        async def use(found: Upstream) -> None:
            assert found.address.port == port
            assert found.stream.patience == REQUEST_TIMEOUT
            assert found.take_api_versions().api_keys
            with pytest.raises(AssertionError):
                found.take_api_versions()  # it is not kept

        order = [closed, silent, ends, talks, port, closed]
        reported = run_reach(order, use)
        assert [one for one, _ in reported] == order[:-1]
        reasons = dict(reported)
        assert reasons[port] is None
        assert reasons[silent] == "it has not answered in 0.4 s"
        assert "refused" in str(reasons[closed])
        assert "closed the connection" in str(reasons[ends])
        assert "to request 7" in str(reasons[talks]) or "closed" in str(reasons[talks])
        with pytest.raises(UnreachableError) as raised:
            run_reach([closed, silent])
        texts = [f"broker {LOOPBACK}:{one}: {reasons[one]}" for one in (closed, silent)]
        assert str(raised.value) == "; ".join(texts)
        for listener in listeners:
            listener.shutdown(socket.SHUT_RDWR)


def test_a_broker_without_an_address_is_not_part_of_the_cluster() -> None:
    with pytest.raises(UnreachableError, match="not part of the cluster any more"):
        run_reach([])
