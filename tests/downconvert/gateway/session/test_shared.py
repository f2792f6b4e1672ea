"""All sessions of a gateway share one state, and two gateways share none."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pytest

from downconvert.access.failed_logins import UNCOUNTED
from downconvert.access.ledger import OwnLedger
from downconvert.access.rights import Access
from downconvert.gateway.config import GatewayConfig, Limits
from downconvert.gateway.server import Gateway
from downconvert.gateway.session.census import ClientCensus, ClientKey
from downconvert.gateway.session.shared import Ledgers, Shared
from downconvert.gateway.topology import Address, Ports, Topology
from downconvert.protocol.schemas import Message
from downconvert.serving.line_budget import LINES_MAX

NOW: Final = 1_000.0
RATE: Final = 100.0  # bytes a second
LIMITS: Final = Limits(memory=1_111, requests_memory=2_222)
CONFIG: Final = GatewayConfig(bootstrap=(Address("cluster", 9092),), limits=LIMITS)
ONE_A_SECOND: Final = Access(connection_creation_rate=1.0)


@contextmanager
def gateway(ledgers: Ledgers | None = None, **options: object) -> Iterator[Gateway]:
    """A gateway that does not serve."""
    one = Gateway(CONFIG, None, ledgers, **options)  # type: ignore[arg-type]
    try:
        yield one
    finally:
        one.pool.close()


def alone() -> Shared:
    """The shared objects of a session without a gateway."""
    return Shared(CONFIG, Topology(CONFIG.bootstrap, Ports(20_000, {})), ClientCensus())


def used(shared: Shared) -> tuple[float, float, float]:
    """Three uses of a client: of its byte rate, of its rate of new connections, of its password.
    Returns the seconds for which it must wait."""
    charged = shared.quotas.charge("ann", "fetch", 5 * RATE, RATE, NOW)
    admitted = shared.admissions.enter("ann", ONE_A_SECOND, NOW)
    attempt = shared.failed_logins.begin("ann", "10.0.0.7", NOW)
    shared.failed_logins.fail("ann", "10.0.0.7", NOW, UNCOUNTED)
    return charged, admitted, attempt.wait


FIRST: Final = (4.0, 0.0, 0.0)
SECOND: Final = (9.0, pytest.approx(1.0), pytest.approx(0.1))


def test_sessions_of_a_gateway_share_what_clients_have_used_and_two_gateways_do_not() -> None:
    with gateway() as one, gateway() as other:
        assert used(one.shared) == FIRST
        assert used(one.shared) == SECOND
        assert used(other.shared) == FIRST


def test_gateways_that_share_ledgers_share_what_clients_have_used() -> None:
    ledgers = Ledgers()
    with gateway(ledgers) as one, gateway(ledgers) as other:
        assert used(one.shared) == FIRST
        assert used(other.shared) == SECOND


def test_each_kind_of_use_is_in_a_ledger_of_its_own() -> None:
    """So made-up names of users that fail to log in push no client out of the rates."""
    quotas, failed_logins, admissions = OwnLedger(), OwnLedger(), OwnLedger()
    sizes = []
    with gateway(Ledgers(quotas, failed_logins, admissions)) as one:
        one.shared.quotas.charge("ann", "fetch", 1, RATE, NOW)
        sizes.append((len(quotas), len(failed_logins), len(admissions)))
        one.shared.failed_logins.fail("ann", "10.0.0.7", NOW)
        sizes.append((len(quotas), len(failed_logins), len(admissions)))
        one.shared.admissions.enter("ann", ONE_A_SECOND, NOW)
        sizes.append((len(quotas), len(failed_logins), len(admissions)))
    assert sizes == [(1, 0, 0), (1, 1, 0), (1, 1, 1)]


def test_counts_of_sessions_are_in_the_figures_of_their_gateway() -> None:
    with gateway() as one, gateway() as other:
        key = ClientKey("c", "", "10.0.0.7", "Fetch", 2)
        one.shared.census.count(key, NOW, translated=True)
        one.shared.last_old.add_request(Message(topics=["t"]), "ann", NOW)
        figures, others = one.figures(), other.figures()
    assert [row["client_id"] for row in figures.clients] == ["c"]
    assert figures.last_old == [("t", "ann", NOW)]
    assert (others.clients, others.last_old) == ([], [])


def test_requests_of_all_sessions_have_one_budget_of_the_configured_size() -> None:
    with gateway() as one:
        assert one.shared.requests.of("10.0.0.7").take(2_000)
        assert one.shared.requests.free == 222
        assert one.budget.take(1_000)  # responses have another one
        assert not one.budget.take(1_000)


def test_the_audit_of_all_sessions_has_one_limit_of_lines(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """In the gateway's time: later there are lines again."""
    caplog.set_level(logging.INFO, "downconvert.audit")
    now = NOW
    with gateway(clock=lambda: now) as one:
        for _ in range(LINES_MAX + 5):
            one.shared.audit.refused({"client": "10.0.0.7"}, "over its limit")
        assert len(caplog.records) == LINES_MAX
        now += 2.0
        one.shared.audit.refused({"client": "10.0.0.8"}, "over its limit")
    last = [record.getMessage() for record in caplog.records][LINES_MAX:]
    assert last[-1] == "client 10.0.0.8: over its limit"
    assert last[0].startswith("and 5 more")


def test_sessions_without_a_gateway_share_nothing() -> None:
    one, other = alone(), alone()
    assert used(one) == FIRST
    assert used(other) == FIRST
    one.last_old.add_request(Message(topics=["t"]), "ann", NOW)
    assert other.last_old.rows() == []
    assert one.requests.of("10.0.0.7").take(Limits().requests_memory)
    assert one.requests.free == 0
    assert other.requests.free == Limits().requests_memory
