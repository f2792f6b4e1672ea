"""Any request to Kafka 3.9.1 and to this broker, in the same state: equal responses.

More of them: `python -m bench.differences`. Not here: what is done for the comparison
(differences/), what needs files of other brokers (test_differential.py)."""

from .differences import logins, throttles
from .differences.run import PIPELINED, WAITING, Run
from .differences.servers import side_by_side, with_users

OPERATIONS = 400
LOGINS = 400
THROTTLED = 30
SEED = 7


def test_any_request_is_answered_as_kafka_answers_it() -> None:
    with side_by_side() as servers:
        run = Run(servers, SEED)
        found = [str(one) for one in run.run(OPERATIONS)]
    assert not found, "\n".join(found[:5])
    assert run.asked.total() == OPERATIONS
    assert len(run.asked) > 25  # APIs


def test_requests_before_the_first_response_and_during_waits_are_answered_as_by_kafka() -> None:
    with side_by_side() as servers:
        run = Run(servers, SEED, (PIPELINED, WAITING))
        found = [str(one) for one in run.run(OPERATIONS // 2)]
    assert not found, "\n".join(found[:5])
    assert run.asked.total() >= OPERATIONS // 2


def test_users_with_different_rights_are_answered_as_kafka_answers_them() -> None:
    """Each of its ACLs has a rule here that means the same."""
    with with_users() as servers:
        run = Run(servers, SEED)
        found = [str(one) for one in run.run(OPERATIONS)]
    assert not found, "\n".join(found[:5])
    assert run.asked.total() == OPERATIONS
    assert run.denied > OPERATIONS // 20


def test_any_login_is_answered_as_kafka_answers_it() -> None:
    with logins.with_logins() as addresses:
        found = list(logins.differing(addresses, SEED, LOGINS))
    assert not found, "\n".join(found[:5])


def test_clients_above_their_rates_wait_as_with_kafka() -> None:
    with throttles.with_rates() as addresses:
        found = list(throttles.differing(addresses, SEED, THROTTLED))
    assert not found, "\n".join(found[:5])
