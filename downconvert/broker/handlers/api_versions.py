"""ApiVersions: the requests that are served here, and their versions.

A client that sends an unknown version gets a response of version 0 with an error and the list, like
brokers since 2.4, and asks again [KIP-511]. A client with a software name that Kafka does not allow
gets an error."""

from typing import Final

from downconvert.access.guard import Offered, offered
from downconvert.access.rights import Access
from downconvert.broker.endings import End
from downconvert.broker.exchange import Exchange
from downconvert.broker.state import BrokerState
from downconvert.protocol.encoder import encode
from downconvert.protocol.errors import ErrorCode
from downconvert.protocol.fetch_versions import MISREADS_OLD_MESSAGES, served_to
from downconvert.protocol.responses import NAMES
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.protocol.software import is_valid, names_in, software_of

from .sasl import is_under_way

RESPONSES_MAX: Final = 64  # remembered responses: one for each rule and version


def handle(broker: BrokerState, exchange: Exchange, _now: float) -> None:
    body = exchange.request.body
    if exchange.client.state and _refused_in_login(exchange, exchange.request.version):
        return
    if not is_valid(body, exchange.request.version):
        exchange.reply(Message(error_code=ErrorCode.INVALID_REQUEST, api_keys=[]))
        return
    client = exchange.client
    client.software_name, client.software_version = names_in(body)
    access = client.access or broker.guard.access
    misreads = MISREADS_OLD_MESSAGES in software_of(body)
    responses, key = broker.version_responses, (access, exchange.request.version, misreads)
    response = responses.get(key)
    if response is None:
        response = _body(access, broker.versions, exchange.request.version, misreads=misreads)
        if len(responses) >= RESPONSES_MAX:
            responses.clear()
        responses[key] = response
    exchange.reply_encoded(response)


def _refused_in_login(exchange: Exchange, version: int) -> bool:
    """Refuses a request in the middle of a login, as Kafka does [SaslServerAuthenticator]. Returns
    whether it is one."""
    if is_under_way(exchange.client):
        exchange.close("ApiVersions in the middle of a login", End.LOGIN)
        exchange.reply(Message(error_code=ErrorCode.ILLEGAL_SASL_STATE, api_keys=[]), version)
    return exchange.is_done


def _body(access: Access, served: Offered, version: int, *, misreads: bool) -> bytes:
    """The encoded versions that are offered to clients with these rights. misreads: see
    served_to."""
    found = dict(offered(access, served))
    if ApiKey.Fetch in found:
        software = MISREADS_OLD_MESSAGES if misreads else ""
        found[ApiKey.Fetch] = served_to(software, found[ApiKey.Fetch])
    keys = [_versions(key, versions) for key, versions in sorted(found.items())]
    return encode(NAMES[ApiKey.ApiVersions], version, Message(api_keys=keys))


def refuse_version(exchange: Exchange, versions: range) -> None:
    """Answers a request with a version outside of these."""
    if _refused_in_login(exchange, 0):
        return
    keys = [_versions(ApiKey.ApiVersions, versions)]
    exchange.reply(Message(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=keys), version=0)


def _versions(key: ApiKey, versions: range) -> Message:
    return Message(api_key=key, min_version=versions.start, max_version=versions.stop - 1)
