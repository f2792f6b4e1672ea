"""The PROXY protocol, versions 1 and 2, as HAProxy specifies it.

A load balancer sends such a header, which names the client, before the client's first byte. A
reader must stop at the header's last byte, because a TLS handshake may follow. If the balancer
connects for itself (LOCAL, UNKNOWN), it is the client.

Not here: which addresses send a header (config.py), reading it (reception.py)."""

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from struct import Struct
from typing import Final

from downconvert.protocol.errors import BadRequestError

TEXT: Final = b"PROXY "
TEXT_MAX: Final = 107  # bytes of a header of version 1, with its line end
TEXT_MIN: Final = b"PROXY UNKNOWN\r\n"
LINE_END: Final = b"\r\n"
UNKNOWN: Final = b"UNKNOWN"
Kind = type[IPv4Address] | type[IPv6Address]
TEXT_FAMILIES: Final[Mapping[bytes, Kind]] = {b"TCP4": IPv4Address, b"TCP6": IPv6Address}
SIGNATURE: Final = b"\r\n\r\n\0\r\nQUIT\n"
BINARY: Final = Struct(">12sBBH")  # the signature, version and command, family and protocol, size
SIZE_MAX: Final = 16_384  # bytes of addresses and TLVs, which may hold a client's certificate
LOCAL: Final = 0x20
PROXY: Final = 0x21
UNSPECIFIED: Final = 0x00
TCP4: Final = 0x11
TCP6: Final = 0x21
ADDRESSES: Final = {TCP4: Struct(">4s4sHH"), TCP6: Struct(">16s16sHH")}
SHOWN: Final = 40  # bytes of an invalid header in error messages
assert len(TEXT_MIN) < BINARY.size


@dataclass(frozen=True, slots=True)
class Proxied:
    """A client behind a balancer: its address, and the balancer's address that it reached."""

    address: str
    reached: str


def parse(header: bytes) -> Proxied | None:
    """Parses a whole header. None: the balancer is the client. BadRequestError."""
    return parse_text(header) if header.startswith(TEXT) else parse_binary(header)


def bytes_missing(data: bytes) -> int:
    """How many more bytes the header has at least; 0: it is whole. BadRequestError."""
    if not (data[: len(TEXT)] == TEXT[: len(data)] or SIGNATURE.startswith(data[: len(SIGNATURE)])):
        raise BadRequestError(f"no PROXY header: {data[:SHOWN]!r}")
    if len(data) < len(TEXT_MIN):
        return len(TEXT_MIN) - len(data)
    if data.startswith(TEXT):
        if data.endswith(LINE_END):
            return 0
        if len(data) >= TEXT_MAX:
            raise BadRequestError(f"a PROXY header longer than {TEXT_MAX} bytes")
        return 1 if data.endswith(LINE_END[:1]) or len(data) + 1 == TEXT_MAX else len(LINE_END)
    if len(data) < BINARY.size:
        return BINARY.size - len(data)
    size = BINARY.unpack_from(data)[3]
    if size > SIZE_MAX:
        raise BadRequestError(f"a PROXY header of {size} bytes, and {SIZE_MAX} are taken")
    return int(BINARY.size + size - len(data))


def parse_text(line: bytes) -> Proxied | None:
    """Parses a whole header of version 1. BadRequestError."""
    parts = line[len(TEXT) : -len(LINE_END)].split(b" ")
    if parts[0] == UNKNOWN:
        return None
    kind = TEXT_FAMILIES.get(parts[0])
    try:
        has_zone = b"%" in line  # an interface's name, meaningless on other machines
        if kind is None or len(parts) != 5 or has_zone or not all(map(_is_port, parts[3:])):
            raise ValueError
        return _proxied(kind(parts[1].decode("ascii")), kind(parts[2].decode("ascii")))
    except ValueError:  # an invalid address, or bytes that are no text
        raise BadRequestError(f"a PROXY header that says {line[:SHOWN]!r}") from None


def parse_binary(data: bytes) -> Proxied | None:
    """Parses a whole header of version 2. TLVs are ignored. BadRequestError."""
    _, command, family, size = BINARY.unpack_from(data)
    if command == LOCAL or (command == PROXY and family == UNSPECIFIED):
        return None
    if command != PROXY:
        raise BadRequestError(f"a PROXY header of version and command {command:#04x}")
    layout = ADDRESSES.get(family)
    if layout is None:
        raise BadRequestError(f"a PROXY header of family {family:#04x}: neither TCP4 nor TCP6")
    if size < layout.size:
        raise BadRequestError(f"a PROXY header of {size} bytes, too few for its addresses")
    kind: Kind = IPv4Address if family == TCP4 else IPv6Address
    address, reached, _, _ = layout.unpack_from(data, BINARY.size)
    return _proxied(kind(address), kind(reached))


def _proxied(*addresses: IPv4Address | IPv6Address) -> Proxied:
    """An IPv4-mapped IPv6 address counts as its IPv4 address, because it is the same client."""
    texts = (str(getattr(one, "ipv4_mapped", None) or one) for one in addresses)
    return Proxied(*texts)


def _is_port(part: bytes) -> bool:
    return part.isdigit() and str(int(part[:6])).encode() == part and int(part) < 1 << 16
