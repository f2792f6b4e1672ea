"""ListTransactions: all transactional ids, or those in some states, of some producers, or with
transactions open for a minimum time.

Version 2, which also selects by a client's regular expression, is not served: matching a malicious
expression may never end."""

from collections.abc import Set
from typing import Final

from downconvert.broker.exchange import Exchange
from downconvert.broker.state import BrokerState
from downconvert.internal_topics.transaction import State, Transaction
from downconvert.protocol.errors import ErrorCode
from downconvert.protocol.schemas import Message

STATES: Final = {state.title for state in State}


def handle(broker: BrokerState, exchange: Exchange, now: float) -> None:
    body = exchange.request.body
    if not broker.config.is_writable:  # only the directory's own broker knows
        exchange.reply(Message(error_code=ErrorCode.NOT_COORDINATOR))
        return
    time = broker.time_of_day.ms(now)
    chosen = frozenset(body.state_filters), frozenset(body.producer_id_filters)
    found = [
        one
        for one in broker.transactions.all().values()
        if _is_asked_for(one, *chosen, body.duration_filter, time)
    ]
    states = [
        Message(
            transactional_id=one.transactional_id,
            producer_id=one.producer_id,
            transaction_state=one.state.title,
        )
        for one in found
    ]
    unknown = sorted(set(body.state_filters) - STATES)
    exchange.reply(Message(unknown_state_filters=unknown, transaction_states=states))


def _is_asked_for(
    one: Transaction, states: Set[str], producer_ids: Set[int], duration: int, time: int
) -> bool:
    """Whether a filter chooses it. An empty set chooses all. `duration` in milliseconds."""
    if states and one.state.title not in states:
        return False
    if producer_ids and one.producer_id not in producer_ids:
        return False
    if duration < 0:
        return True
    return one.is_open and time - one.start_time > duration
