"""Dates of certificates as they are written in DER, with two or four digits of the year."""

import time
from base64 import encodebytes
from pathlib import Path

import pytest

from downconvert.gateway.expiry import valid_until

UTC_TIME, GENERALIZED_TIME, VERSION = 0x17, 0x18, 0xA0
SEQUENCE, INTEGER = 0x30, 0x02
DAY = 86_400


def der(tag: int, *contents: bytes) -> bytes:
    content = b"".join(contents)
    size = len(content)
    if size < 128:
        return bytes([tag, size]) + content
    digits = size.to_bytes((size.bit_length() + 7) // 8)
    return bytes([tag, 128 + len(digits)]) + digits + content


def certificate(tag: int, end: str, *, has_version: bool = True, issuer_size: int = 10) -> str:
    begin = der(UTC_TIME, b"600101000000Z")
    fields = [
        der(INTEGER, b"\7"),
        der(SEQUENCE),
        der(SEQUENCE, bytes(issuer_size)),
        der(SEQUENCE, begin, der(tag, end.encode())),
        der(SEQUENCE),
    ]
    if has_version:
        fields.insert(0, der(VERSION, der(INTEGER, b"\2")))
    data = der(SEQUENCE, der(SEQUENCE, *fields), der(SEQUENCE))
    text = encodebytes(data).decode()
    return f"-----BEGIN CERTIFICATE-----\n{text}-----END CERTIFICATE-----\n"


@pytest.mark.parametrize(
    ("tag", "end", "seconds"),
    [
        (UTC_TIME, "491231235959Z", 80 * 365.25 * DAY - 1),
        (UTC_TIME, "500101000000Z", -20 * 365.25 * DAY),
        (UTC_TIME, "700102000000Z", DAY),
        (UTC_TIME, "000101000000Z", 946_684_800),
        (GENERALIZED_TIME, "20500101000000Z", 80 * 365.25 * DAY),
        (GENERALIZED_TIME, "19700103000000Z", 2 * DAY),
    ],
)
@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo"])
def test_a_date_is_of_the_century_and_the_zone_that_the_standard_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tag: int, end: str, seconds: float, zone: str
) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        file = tmp_path / "a.pem"
        file.write_text(certificate(tag, end))
        assert valid_until(file) == pytest.approx(seconds, abs=0.1 if seconds < 1e9 else DAY)
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize("has_version", [True, False])
@pytest.mark.parametrize("issuer_size", [10, 127, 128, 255, 256, 70_000])
def test_fields_of_any_size_before_the_date_are_skipped(
    tmp_path: Path, has_version: bool, issuer_size: int
) -> None:
    file = tmp_path / "a.pem"
    text = certificate(UTC_TIME, "700102000000Z", has_version=has_version, issuer_size=issuer_size)
    file.write_text(text)
    assert valid_until(file) == DAY


def test_the_first_end_counts_and_text_around_the_certificates_does_not(tmp_path: Path) -> None:
    file = tmp_path / "a.pem"
    ends = ["700105000000Z", "700103000000Z", "700104000000Z"]
    text = "Prüfstelle\n".join(certificate(UTC_TIME, end) for end in ends)
    file.write_bytes(text.encode("latin-1"))
    assert valid_until(file) == 2 * DAY
