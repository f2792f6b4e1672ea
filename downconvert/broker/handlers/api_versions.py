"""ApiVersions: which requests are served here, in which versions.

A client that asks in a version that is not known gets the answer of version 0 with an error and the
list, as brokers since 2.4 do, and asks again [KIP-511]. One whose software has a name that Kafka
does not take is told so."""

from downconvert.broker.access.guard import offered
from downconvert.broker.errors import ErrorCode
from downconvert.broker.exchange import Exchange
from downconvert.broker.fetch_versions import served_to
from downconvert.broker.software import is_valid, software_of
from downconvert.broker.state import BrokerState
from downconvert.broker.wire.schemas import ApiKey, Message


def handle(broker: BrokerState, exchange: Exchange, _now: float) -> None:
    body = exchange.request.body
    if not is_valid(body, exchange.request.version):
        exchange.reply(Message(error_code=ErrorCode.INVALID_REQUEST, api_keys=[]))
        return
    exchange.client.software_name = body.client_software_name
    exchange.client.software_version = body.client_software_version
    access = exchange.client.access or broker.guard.access
    found = dict(offered(access, broker.versions))
    if ApiKey.Fetch in found:
        found[ApiKey.Fetch] = served_to(software_of(body), found[ApiKey.Fetch])
    keys = [_versions(key, versions) for key, versions in sorted(found.items())]
    exchange.reply(Message(api_keys=keys))


def refuse_version(exchange: Exchange, versions: range) -> None:
    """Answers a version that is not one of these."""
    keys = [_versions(ApiKey.ApiVersions, versions)]
    exchange.reply(Message(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=keys), version=0)


def _versions(key: ApiKey, versions: range) -> Message:
    return Message(api_key=key, min_version=versions.start, max_version=versions.stop - 1)
