"""Sizes, times and counts in text form.

Sizes are binary ("64KiB" is 65536; "64k" and "64KB" mean the same, as in Kafka's own settings).
Throughput is decimal, as on a network card: 1 MB/s is a million bytes a second."""

import re
from typing import Final

KiB: Final = 1024
MiB: Final = 1024 * KiB
GiB: Final = 1024 * MiB

_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([kmg]?)(?:i?b)?", re.IGNORECASE)
_SIZE_MAX: Final = 2**63 - 1
_FACTOR: Final = {"": 1, "k": KiB, "m": MiB, "g": GiB}


def parse_size(text: str) -> int:
    """Bytes of "1500", "64KiB", "1.5m". ValueError: it explains the correct form."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a size: write bytes, or a number with KiB, MiB or GiB")
    size = float(match[1]) * _FACTOR[match[2].lower()]
    if size > _SIZE_MAX:
        raise ValueError(f"{text!r} is larger than any file can be")
    return int(size)


def format_size(size: float) -> str:
    """Three significant digits and a binary unit: "16 KiB", "1.21 MiB"."""
    if abs(size) < KiB:
        return f"{size:.0f} B"
    for unit, factor in (("KiB", KiB), ("MiB", MiB)):
        if abs(size) < 999.5 * factor:
            return f"{_three_digits(size / factor)} {unit}"
    return f"{_three_digits(size / GiB)} GiB"


def plain_size(size: int) -> str:
    """A text that `parse_size` reads back exactly: "64MiB", "100000"."""
    for unit, factor in (("GiB", GiB), ("MiB", MiB), ("KiB", KiB)):
        if size and size % factor == 0:
            return f"{size // factor}{unit}"
    return str(size)


def format_seconds(seconds: float) -> str:
    """ "0.35 ms", "12.1 ms", "1.2 s"."""
    if abs(seconds) < 1e-3:
        return f"{seconds * 1e3:.2f} ms"
    if abs(seconds) < 0.9995:
        return f"{_three_digits(seconds * 1e3)} ms"
    return f"{_three_digits(seconds)} s"


def format_rate(number: float) -> str:
    """ "1.21 M", "850 k": a number per second."""
    for prefix, factor in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= 0.9995 * factor:
            return f"{_three_digits(number / factor)} {prefix}"
    return _three_digits(number)


def format_count(count: int, what: str) -> str:
    """ "1 segment", "1,200 segments"."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def _three_digits(value: float) -> str:
    digits = max(0, 2 - len(str(int(abs(value)))) + 1) if abs(value) >= 1 else 2
    text = f"{value:.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
