"""ApiVersions: which requests are served here, in which versions.

A client that asks in a version that is not known gets the answer of version 0 with an error and the
list, as brokers since 2.4 do, and asks again [KIP-511]."""

from typing import TYPE_CHECKING

from broker import apis
from broker.errors import ErrorCode
from broker.exchange import Exchange
from broker.schemas import ApiKey, Message

if TYPE_CHECKING:
    from broker.broker import Broker


def handle(_broker: "Broker", exchange: Exchange, _now: float) -> None:
    body = exchange.request.body
    exchange.client.software_name = body.client_software_name
    exchange.client.software_version = body.client_software_version
    exchange.reply(Message(api_keys=[_versions(key) for key in sorted(apis.APIS)]))


def refuse_version(exchange: Exchange) -> None:
    """Answers a version that is not known."""
    keys = [_versions(ApiKey.ApiVersions)]
    exchange.reply(Message(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=keys), version=0)


def _versions(key: ApiKey) -> Message:
    versions = apis.APIS[key].versions
    return Message(api_key=key, min_version=versions.start, max_version=versions.stop - 1)
