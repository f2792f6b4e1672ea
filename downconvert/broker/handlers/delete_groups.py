"""DeleteGroups: forgets groups without members, and their committed offsets."""

from downconvert.broker.exchange import Exchange
from downconvert.broker.state import BrokerState
from downconvert.protocol.schemas import Message


def handle(broker: BrokerState, exchange: Exchange, now: float) -> None:
    names = dict.fromkeys(exchange.request.body.groups_names)
    results = [Message(group_id=name, error_code=broker.groups.delete(name, now)) for name in names]
    exchange.reply(Message(results=results))
