import socket
import ssl
import sys
import threading
from dataclasses import replace
from errno import EADDRINUSE
from pathlib import Path
from struct import Struct
from typing import Any

import pytest

from downconvert.access.rights import ConfigError
from downconvert.access.tokens import Tokens, TokenSettings
from downconvert.gateway.config import GatewayConfig
from downconvert.gateway.identity import Identities
from downconvert.gateway.network.listeners import Listeners, why
from downconvert.gateway.server import Gateway
from downconvert.gateway.topology import Address
from downconvert.protocol.schemas import ApiKey, Message
from tests.certificates import self_signed
from tests.downconvert.gateway.serving import LOOPBACK, Wire, cluster, gateway
from tests.ports import free_ports
from tests.tokens import write
from tests.waiting import wait_for

CONFIG = GatewayConfig(bootstrap=(Address(LOOPBACK, 1),), listen=Address(LOOPBACK, 0))
ALL = Message(topics=None)


def at(port: int, *, shares_ports: bool = False) -> Gateway:
    listen = Address(LOOPBACK, port)
    return Gateway(replace(CONFIG, listen=listen, shares_ports=shares_ports))


def test_two_gateways_at_one_port_are_an_error() -> None:
    (port,) = free_ports(1)
    with at(port):
        with pytest.raises(OSError, match="in use") as failure:
            at(port).start()
        assert failure.value.errno == EADDRINUSE
        assert why(failure.value) == (
            "Address already in use by another program, another gateway, or --http of this one"
        )
    with at(port):  # which is free again
        pass


def test_a_gateway_that_cannot_start_does_not_go_on_to_read_the_keys_of_tokens(
    tmp_path: Path,
) -> None:
    settings = TokenSettings(jwks=str(write(tmp_path)), issuer="i", audience=("a",))
    with at(0) as first:
        before = readers_of_keys()
        identities = Identities(tokens=Tokens(settings))
        second = Gateway(replace(CONFIG, listen=first.address, identities=identities))
        with pytest.raises(OSError, match="in use"):
            second.start()
        wait_for(lambda: readers_of_keys() <= before)


def readers_of_keys() -> set[threading.Thread]:
    return {one for one in threading.enumerate() if one.name == "jwks"}


def test_gateways_that_both_say_so_share_a_port() -> None:
    with at(0, shares_ports=True) as first:
        with at(first.address.port, shares_ports=True) as second:
            assert second.address == first.address
        with pytest.raises(OSError, match="in use"):
            at(first.address.port).start()


def test_one_port_cannot_stand_for_two_brokers() -> None:
    with pytest.raises(ConfigError, match="port 7000 is used twice"):
        replace(CONFIG, node_ports={1: 7000, 2: 7000})
    with pytest.raises(ConfigError, match="port 7000 is used twice"):
        replace(CONFIG, listen=Address(LOOPBACK, 7000), node_ports={1: 7000})


def test_a_host_of_several_addresses_has_one_port_at_all() -> None:
    listeners = Listeners("", shares_ports=False)
    copies = listeners.copies(0, 0)
    assert len({one.getsockname()[1] for one in copies}) == 1
    for one in copies:
        with socket.socket(one.family) as other, pytest.raises(OSError, match="in use"):
            other.bind(one.getsockname())
        one.close()
    listeners.close_all()


def test_the_port_of_a_node_that_is_gone_is_opened_again_when_it_comes_back() -> None:
    listeners = Listeners(LOOPBACK, shares_ports=False)
    (port,) = free_ports(1)
    (first,) = listeners.copies(3, port)
    first.close()
    listeners.close(3)
    listeners.close(3)  # which is nothing, and nothing is there for a node that never was
    listeners.close(4)
    (again,) = listeners.copies(3, port)
    assert again.getsockname()[1] == port
    with socket.create_connection(again.getsockname(), timeout=60):
        pass
    again.close()
    listeners.close_all()


@pytest.mark.skipif(sys.platform != "linux", reason="the host has one loopback address")
def test_a_host_with_one_address_in_use_leaves_its_others_free(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The same holds while the error is kept, like that of a start."""
    hosts = LOOPBACK, "127.0.0.2"

    def both(_: object, port: int, **__: object) -> list[tuple[Any, ...]]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", (host, port)) for host in hosts]

    (port,) = free_ports(1)
    with socket.create_server((hosts[1], port)) as other:
        listeners = Listeners("two", shares_ports=False)
        with monkeypatch.context() as patched:
            patched.setattr(socket, "getaddrinfo", both)
            with pytest.raises(OSError, match="in use") as kept:
                listeners.copies(3, port)
        with socket.socket() as free:
            free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            free.bind((hosts[0], port))
        other.close()
        with monkeypatch.context() as patched:
            patched.setattr(socket, "getaddrinfo", both)
            copies = listeners.copies(3, port)
    assert [one.getsockname() for one in copies] == [(host, port) for host in hosts]
    assert kept.value.errno == EADDRINUSE
    for one in copies:
        one.close()
    listeners.close_all()


# --- TLS


@pytest.mark.parametrize("tls_cert", ["/no/such.pem", __file__])
def test_a_file_that_is_no_certificate_is_named_at_the_start(tls_cert: str) -> None:
    with pytest.raises(ConfigError, match=tls_cert):
        Gateway(replace(CONFIG, tls_cert=tls_cert, tls_key=tls_cert))


def test_certificates_and_the_clusters_addresses_are_renewed(tmp_path: Path) -> None:
    directories = [tmp_path / name for name in ("old", "new", "log")]
    for one in directories:
        one.mkdir()
    (old, old_key), (new, new_key) = map(self_signed, directories[:2])
    options: dict[str, Any] = {
        "tls_cert": old,
        "tls_key": old_key,
        "limits": replace(CONFIG.limits, connect_timeout=2),
    }
    with cluster(directories[2], "t") as (_, port), gateway(1, **options) as running:
        assert shown(running.address) == Path(old).read_text()
        bootstrap = (Address(LOOPBACK, port),)
        for certificate, key in (("/no/such.pem", old_key), (None, None)):
            broken = replace(running.config, tls_cert=certificate, tls_key=key)
            with pytest.raises(ConfigError):
                running.reload(replace(broken, bootstrap=bootstrap))
            assert shown(running.address) == Path(old).read_text()
        renewed = replace(running.config, bootstrap=bootstrap, tls_cert=new, tls_key=new_key)
        running.reload(renewed)
        assert shown(running.address) == Path(new).read_text()
        with Wire(running.address) as client:
            client.start_tls(new)
            assert client.ask(ApiKey.Metadata, 1, ALL).topics


def test_a_tls_context_is_not_built_for_each_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = []
    create = ssl.create_default_context

    def counted(*args: object, **options: object) -> ssl.SSLContext:
        built.append(args)
        return create(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(ssl, "create_default_context", counted)
    (tmp_path / "log").mkdir()
    certificate, key = self_signed(tmp_path)
    security = replace(CONFIG.security, tls=True, ca_file=certificate)
    with (
        cluster(tmp_path / "log") as (_, port),
        gateway(port, tls_cert=certificate, tls_key=key, security=security) as running,
    ):
        for _ in range(3):
            with Wire(running.address) as client:
                client.socket.sendall(b"none")
        wait_for(lambda: bool(running.figures().failures))
    assert len(built) == 2


def shown(address: Address) -> str:
    """The certificate that a client sees, as the file has it."""
    return ssl.get_server_certificate(address)


@pytest.mark.parametrize("resets", [False, True])
def test_the_end_of_a_tls_connection_is_no_defect(tmp_path: Path, resets: bool) -> None:
    certificate, key = self_signed(tmp_path)
    context = ssl.create_default_context(cafile=certificate)
    context.check_hostname = False
    (tmp_path / "log").mkdir()
    with (
        cluster(tmp_path / "log", "t") as (_, port),
        gateway(port, tls_cert=certificate, tls_key=key) as running,
    ):
        for _ in range(3):
            client = Wire(running.address)
            client.socket = context.wrap_socket(client.socket)
            assert client.ask(ApiKey.Metadata, 1, ALL).topics
            if resets:
                linger = Struct("ii").pack(1, 0)
                client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            client.socket.close()
        wait_for(lambda: sum(running.figures().ends.values()) == 3)
        assert running.figures().ends == {"client_closed": 3}


def test_accepted_clients_are_kept_alive_by_the_system_and_get_small_responses_at_once() -> None:
    options = (socket.IPPROTO_TCP, socket.TCP_NODELAY), (socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    listeners = Listeners(LOOPBACK, shares_ports=False)
    (listening,) = listeners.copies(0, 0)
    with listening, socket.create_connection(listening.getsockname()):
        accepted, _ = listening.accept()
        with accepted:
            assert all(accepted.getsockopt(*option) for option in options)
    listeners.close_all()
