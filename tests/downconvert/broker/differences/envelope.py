"""The parts around a request: its header, and the bytes after its last field.

A few of the requests have a client id that no client has, a version that no server has, tagged
fields that no server knows, more or fewer bytes than their fields need, or a byte that is another.

Not here: the fields (operations.py)."""

from dataclasses import dataclass
from random import Random
from typing import Final

from downconvert.protocol.requests import parse_body, parse_header
from downconvert.protocol.schemas import ApiKey, Message, is_flexible
from tests.downconvert.broker.asking import frame

CLIENT_ID: Final = "test"
CLIENT_IDS: Final = (None, "", "é", "a b", "x" * 300, "x" * 32_767)
UNKNOWN_TAGS: Final = bytes((2, 90, 0, 91, 3)) + b"abc"  # two: 90 without bytes, and 91
VERSIONS: Final = (99, -1, 32_767)
APIS: Final = (-1, 99, 999)
MORE: Final = (b"\0", b"abc", bytes(100))
CUT: Final = (1, 2, 3, 5, 9, 20)
ODD_SHARE: Final = 0.1
API_AT, VERSION_AT, CLIENT_ID_AT = 0, 2, 8  # bytes
IDS_SINCE: Final = {ApiKey.Metadata: 10, ApiKey.OffsetFetch: 10}  # versions with topics' ids
CHANGES: Final = (0x01, 0x02, 0x80, 0xFF)
# They change nothing, and are answered at once, with any fields.
QUICK: Final = {
    ApiKey.ApiVersions,
    ApiKey.DescribeAcls,
    ApiKey.DescribeCluster,
    ApiKey.DescribeConfigs,
    ApiKey.DescribeGroups,
    ApiKey.DescribeLogDirs,
    ApiKey.DescribeProducers,
    ApiKey.DescribeTransactions,
    ApiKey.FindCoordinator,
    ApiKey.Heartbeat,
    ApiKey.ListGroups,
    ApiKey.ListOffsets,
    ApiKey.ListTransactions,
    ApiKey.Metadata,
    ApiKey.OffsetFetch,
    ApiKey.OffsetForLeaderEpoch,
    ApiKey.SaslHandshake,
}


@dataclass(frozen=True, slots=True)
class Envelope:
    """client_id: None is null. api, version: in the header, where they are not the request's own.
    cut: bytes that are missing at the end. more: bytes that follow the end. changed: where in its
    client id or in its fields a byte is another (0.0 to 1.0), and what is xored with it."""

    client_id: str | None = CLIENT_ID
    api: int | None = None
    version: int | None = None
    has_unknown_tags: bool = False
    cut: int = 0
    more: bytes = b""
    changed: tuple[float, int] | None = None
    error: str = ""  # why its fields cannot be read then

    def response_version(self, version: int) -> int:
        """The version of the response to a request: 0, where no server has its version (KIP-511).
        Only ApiVersions is answered then."""
        return version if self.version is None else 0

    def __str__(self) -> str:
        if self == PLAIN:
            return ""
        client_id = None if self.client_id is None else f"{self.client_id:.20}"
        odd = {
            "client id": None if client_id == CLIENT_ID else repr(client_id),
            "as API": self.api,
            "as version": self.version,
            "unknown tags": self.has_unknown_tags or None,
            "cut": self.cut or None,
            "more": self.more[:5] or None,
            "changed": self.changed,
        }
        said = (f"{name} {value}" for name, value in odd.items() if value is not None)
        return f", {', '.join(said)}"


PLAIN: Final = Envelope()


def envelope(random: Random, api: ApiKey, version: int) -> Envelope:
    """The parts around the next request."""
    has_tags = is_flexible(api, version) and random.random() < 0.1
    if random.random() > ODD_SHARE:
        return Envelope(has_unknown_tags=has_tags)
    if api in QUICK and not _has_ids(api, version) and random.random() < 0.5:
        return Envelope(changed=(random.random(), random.choice(CHANGES)))
    match random.randrange(7):
        case 0:
            return Envelope(api=random.choice(APIS))
        case 1:
            return Envelope(version=random.choice(VERSIONS))
        case 2:
            return Envelope(cut=random.choice(CUT))
        case 3:
            return Envelope(more=random.choice(MORE))
        case _:
            return Envelope(client_id=random.choice(CLIENT_IDS), has_unknown_tags=has_tags)


def _has_ids(api: ApiKey, version: int) -> bool:
    """Whether topics may be named by their ids, which differ between the servers."""
    return version >= IDS_SINCE.get(api, version + 1)


def framed(made: Envelope, api: ApiKey, version: int, body: Message) -> bytes:
    """A request as one server gets it. A flexible one ends with the number of its tagged fields,
    and none of ours has any there."""
    data = bytearray(frame(api, version, body, made.client_id))
    for number, at in ((made.api, API_AT), (made.version, VERSION_AT)):
        if number is not None:
            data[at : at + 2] = number.to_bytes(2, signed=True)
    if made.has_unknown_tags and not data[-1]:
        data[-1:] = UNKNOWN_TAGS
    if made.changed is not None:
        place, change = made.changed
        data[CLIENT_ID_AT + int(place * (len(data) - CLIENT_ID_AT))] ^= change
    if made.cut:
        del data[-made.cut :]
    return bytes(data + made.more)


def as_read(made: Envelope, api: ApiKey, version: int, body: Message) -> Message:
    """The fields of a request as its bytes have them. BadRequestError: they cannot be read."""
    data = memoryview(framed(made, api, version, body))
    return parse_body(parse_header(data), data).body
