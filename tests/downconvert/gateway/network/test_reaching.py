"""A broker's addresses, which are tried one after the other."""

import socket
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from downconvert.gateway.config import GatewayConfig, Limits
from downconvert.gateway.network.conversion_pool import ConversionPool
from downconvert.gateway.network.sockets.ended import UnreachableError
from downconvert.gateway.network.upstream import Upstream, reach
from downconvert.gateway.security import ClusterSecurity, Credentials
from downconvert.gateway.session.headers import parse
from downconvert.gateway.topology import Address
from downconvert.protocol.encoder import encode
from downconvert.protocol.schemas import ApiKey, Message, is_flexible
from tests.downconvert.gateway.network.sockets.connected import in_loop
from tests.downconvert.gateway.serving import cluster
from tests.ports import LOOPBACK, free_ports

from .test_upstream_steps import BROKER, CONNECT_TIMEOUT, REQUEST_TIMEOUT, framed


def closing(listener: socket.socket, response: bytes) -> None:
    while True:
        try:
            near, _ = listener.accept()
        except OSError:
            return
        near.sendall(response)
        near.close()


def run_reach(
    addresses: list[int],
    use: Callable[[Upstream], Coroutine[Any, Any, None]] | None = None,
    **settings: Any,
) -> list[tuple[int, str | None]]:
    """The reports about each port."""
    reported: list[tuple[int, str | None]] = []
    limits = Limits(connect_timeout=CONNECT_TIMEOUT, request_timeout=REQUEST_TIMEOUT)
    config = replace(GatewayConfig(bootstrap=(BROKER,), limits=limits), **settings)

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

    in_loop(whole())
    return reported


def test_addresses_are_tried_in_order_and_each_failure_is_reported(tmp_path: Path) -> None:
    (closed,) = free_ports(1)
    with ExitStack() as stack:
        _, port = stack.enter_context(cluster(tmp_path, "t"))
        listeners = [stack.enter_context(socket.create_server((LOOPBACK, 0))) for _ in range(3)]
        silent, ends, talks = (one.getsockname()[1] for one in listeners)
        responses = b"", framed(7, bytes(30))
        for listener, response in zip(listeners[1:], responses, strict=True):
            Thread(target=closing, args=(listener, response), daemon=True).start()

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


def test_a_broker_that_hangs_for_longer_than_a_request_may_is_given_up() -> None:
    """Even if more time is left to connect. Its connection is closed then."""
    with socket.create_server((LOOPBACK, 0)) as silent:
        port = silent.getsockname()[1]
        name = f"broker {LOOPBACK}:{port}"
        with pytest.raises(UnreachableError, match=f"{name}: it has not answered in 0.2 s"):
            run_reach([port], limits=Limits(connect_timeout=5.0, request_timeout=0.2))
        near, _ = silent.accept()
        with near:
            near.settimeout(60.0)
            while near.recv(1000):
                pass


def answering(listener: socket.socket, asked: list[int]) -> None:
    """A broker that takes any login."""
    bodies = {
        ApiKey.SaslHandshake: Message(error_code=0, mechanisms=["PLAIN"]),
        ApiKey.SaslAuthenticate: Message(error_code=0, auth_bytes=b""),
        ApiKey.ApiVersions: Message(error_code=0, api_keys=[]),
    }
    near, _ = listener.accept()
    with near:
        while size := near.recv(4, socket.MSG_WAITALL):
            data = near.recv(int.from_bytes(size), socket.MSG_WAITALL)
            header = parse(memoryview(data))
            assert header.api is not None
            asked.append(header.api)
            flexible = header.api is not ApiKey.ApiVersions and is_flexible(
                header.api, header.version
            )
            body = encode(f"{header.api.name}Response", header.version, bodies[header.api])
            near.sendall(framed(header.correlation_id, b"\0" * flexible, body))


def test_a_login_comes_before_everything_else() -> None:
    """Some brokers answer nothing before it."""
    asked: list[int] = []
    credentials = Credentials(mechanism="PLAIN", username="ann", secret="pencil")
    with socket.create_server((LOOPBACK, 0)) as listener:
        Thread(target=answering, args=(listener, asked), daemon=True).start()
        run_reach([listener.getsockname()[1]], security=ClusterSecurity(credentials=credentials))
    assert asked == [ApiKey.SaslHandshake, ApiKey.SaslAuthenticate, ApiKey.ApiVersions]
