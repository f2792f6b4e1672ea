"""Requests of the gateway's own: their bytes, and whether the cluster answers them."""

from typing import Any

import pytest

from downconvert.gateway.session.exchanges import (
    ASK_API_VERSIONS,
    TURN,
    Ask,
    Nothing,
    Steps,
    advance,
    nothing,
    same,
)
from downconvert.gateway.session.headers import parse
from downconvert.gateway.session.spool import Spool
from downconvert.protocol.decoder import decode
from downconvert.protocol.encoder import encode
from downconvert.protocol.errors import BadRequestError
from downconvert.protocol.schemas import ApiKey, Message

ANSWERED = {
    ApiKey.ApiVersions: Message(error_code=0, api_keys=[]),
    ApiKey.Metadata: Message(brokers=[], topics=[], cluster_id="c"),
    ApiKey.Produce: Message(responses=[]),
}
ASKED = {
    ApiKey.ApiVersions: Message(client_software_name="a", client_software_version="b"),
    ApiKey.Metadata: Message(topics=[]),
    ApiKey.Produce: Message(acks=1, timeout_ms=4, topic_data=[]),
}
VERSIONS = [  # the last one before flexible fields, and the first one with them
    *[
        (ApiKey.ApiVersions, 2, False),
        (ApiKey.ApiVersions, 3, False),
    ],  # its response never has tags
    *[(ApiKey.Metadata, 8, False), (ApiKey.Metadata, 9, True)],
    *[(ApiKey.Produce, 8, False), (ApiKey.Produce, 9, True)],
]


def spooled(data: bytes) -> Spool:
    spool = Spool(len(data))
    spool.write(memoryview(data))
    return spool


@pytest.mark.parametrize(("api", "version", "has_tags"), VERSIONS)
@pytest.mark.parametrize("client_id", [None, "us"])
def test_a_request_is_what_a_broker_reads(
    api: ApiKey, version: int, has_tags: bool, client_id: str | None
) -> None:
    del has_tags  # of its response
    data = memoryview(Ask(api, version, ASKED[api]).frame(11, client_id))
    header = parse(data)
    assert (header.api, header.version, header.correlation_id) == (api, version, 11)
    assert header.client_id == client_id
    body = vars(decode(f"{api.name}Request", version, data[header.size :]))
    known = vars(ASKED[api]) if version > 2 else {}  # before that, no software is named
    assert body.items() >= known.items()


@pytest.mark.parametrize(("api", "version", "has_tags"), VERSIONS)
def test_a_response_is_read_with_the_header_that_its_version_has(
    api: ApiKey, version: int, has_tags: bool
) -> None:
    data = encode("ResponseHeader", int(has_tags), Message(correlation_id=11))
    data += encode(f"{api.name}Response", version, ANSWERED[api])
    ask = Ask(api, version, ASKED[api])
    assert vars(ask.response(spooled(data), 11)).items() >= vars(ANSWERED[api]).items()
    with pytest.raises(BadRequestError):
        ask.response(spooled(data), 12)


@pytest.mark.parametrize(
    ("api", "acks", "expects"),
    [
        (ApiKey.Produce, 0, False),
        (ApiKey.Produce, 1, True),
        (ApiKey.Produce, -1, True),
        (ApiKey.Metadata, 0, True),
    ],
)
def test_only_a_produce_without_acks_has_no_response(api: ApiKey, acks: int, expects: bool) -> None:
    assert Ask(api, 7, Message(acks=acks)).expects_response is expects
    assert Ask(api, 7, None).expects_response


def test_the_gateway_names_itself_when_it_asks_brokers_for_versions() -> None:
    body = ASK_API_VERSIONS.body
    assert body is not None
    assert (ASK_API_VERSIONS.api, ASK_API_VERSIONS.version) == (ApiKey.ApiVersions, 3)
    assert body.client_software_name == "lazy-downconvert-gateway"


def test_an_exchange_is_resumed_with_results_until_its_reply() -> None:
    got: list[Any] = []

    def exchange() -> Steps:
        got.append((yield TURN))
        got.append((yield TURN))
        return Nothing()

    steps = exchange()
    assert advance(steps, nothing) is TURN
    assert advance(steps, lambda: same(5)) is TURN
    assert advance(steps, nothing) == Nothing()
    assert got == [5, None]
