"""The handshake of a connection: what it waits for, and what a certificate means."""

import ssl
from types import SimpleNamespace
from typing import Any

import pytest

from downconvert.broker.network.connection import Incoming
from downconvert.broker.network.handshake import Handshake
from downconvert.serving.request_memory import RequestMemory

NAMED = {"subject": ((("commonName", "ann"),),)}


class Channel:
    """A TLS socket whose steps end as a test says."""

    def __init__(self, *steps: type[Exception] | None, certificate: Any = None) -> None:
        self._steps = list(steps)
        self._certificate = certificate

    def do_handshake(self) -> None:
        error = self._steps.pop(0)
        if error is not None:
            raise error

    def getpeercert(self) -> Any:
        return self._certificate


class Place:
    is_settled = False

    def settle(self) -> None:
        self.is_settled = True


def connection(channel: Channel, *, authenticates: bool) -> Any:
    return SimpleNamespace(
        channel=channel,
        client=SimpleNamespace(address="10.0.0.1", certificate=None),
        authenticates=authenticates,
        in_handshake=True,
        waits_to_write=False,
        request_started=5.0,
        incoming=Incoming(100, RequestMemory(1000).of("10.0.0.1")),
        place=Place(),
    )


class Served:
    """Notes what each connection is watched for."""

    def __init__(self) -> None:
        self.watched: list[bool] = []

    def watch(self, connection: Any) -> None:
        self.watched.append(connection.waits_to_write)


def handshake(served: Any, **rules: object) -> Handshake:
    """`rules`: by names of certificates."""

    def find(_address: str, _user: None, certificate: str) -> object:
        return rules.get(certificate)

    broker = SimpleNamespace(guard=SimpleNamespace(find=find))
    limits, memory = SimpleNamespace(request_size=1000), RequestMemory(1000)
    serving: Any = SimpleNamespace(broker=broker, limits=limits, memory=memory)
    return Handshake(serving, served)


def test_a_handshake_waits_for_the_direction_that_tls_wants() -> None:
    served = Served()
    steps = (ssl.SSLWantReadError, ssl.SSLWantWriteError, ssl.SSLWantReadError, None)
    one = connection(Channel(*steps), authenticates=True)
    made = handshake(served)
    assert [made.advance(one) for _ in steps] == [False, False, False, True]
    assert served.watched == [False, True, False, False]


def test_a_finished_handshake_waits_for_a_request() -> None:
    served = Served()
    one = connection(Channel(ssl.SSLWantWriteError, None), authenticates=False)
    made = handshake(served)
    assert [made.advance(one) for _ in range(2)] == [False, True]
    assert served.watched == [True, False]
    assert not one.in_handshake


@pytest.mark.parametrize("authenticates", [False, True])
def test_a_login_gets_no_more_time_than_before(authenticates: bool) -> None:
    one = connection(Channel(None), authenticates=authenticates)
    assert handshake(Served()).advance(one)
    assert one.request_started == (5.0 if authenticates else None)
    assert one.authenticates is authenticates
    assert (one.incoming.size_max, one.place.is_settled) == (100, False)


@pytest.mark.parametrize(("rules", "is_known"), [({"ann": object()}, True), ({}, False)])
def test_a_certificate_that_a_rule_names_is_a_login(
    rules: dict[str, object], is_known: bool
) -> None:
    one = connection(Channel(None, certificate=NAMED), authenticates=True)
    assert handshake(Served(), **rules).advance(one)
    assert one.client.certificate == "ann"
    assert one.authenticates is not is_known
    assert one.place.is_settled is is_known
    assert one.incoming.size_max == (1000 if is_known else 100)
    assert one.request_started == (None if is_known else 5.0)
