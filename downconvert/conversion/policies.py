"""A conversion policy as one line of text: `default`, `kafka`, `kafka,size=exact`,
`recode=zstd:none`.

Not here: the meaning of the options (downconvert.ConversionPolicy)."""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from records.units import parse_size

from .policy import ConversionPolicy

_NONE: Final = "none"


def parse_policy(text: str) -> ConversionPolicy:
    """Reads a name, then `option=value` for each difference from it. Raises ValueError with one
    line that states the problem.

    `recode=zstd:gzip+lz4:none` names several codecs."""
    name, *parts = (part.strip() for part in text.split(","))
    if "=" in name:
        name, parts = "default", [name, *parts]
    if name not in ("default", "kafka"):
        raise ValueError(f"{name!r} is not a policy: write default or kafka, then option=value")
    changes: dict[str, object] = {}
    for part in filter(None, parts):
        option, equals, value = part.partition("=")
        if not equals or option not in _PARSERS:
            raise ValueError(f"{part!r} is not one of {', '.join(_PARSERS)}, each as option=value")
        try:
            changes[option] = _PARSERS[option](value)
        except ValueError as error:
            raise ValueError(f"{option}: {error}") from None
    policy = ConversionPolicy.kafka() if name == "kafka" else ConversionPolicy()
    return replace(policy, **changes)  # type: ignore[arg-type]


def _yes_or_no(text: str) -> bool:
    if text not in ("yes", "no"):
        raise ValueError(f"{text!r} is neither yes nor no")
    return text == "yes"


def _size_or_none(text: str) -> int | None:
    return None if text == _NONE else parse_size(text)


def _recode(text: str) -> dict[str, str]:
    pairs = {}
    for pair in text.split("+"):
        codec, colon, target_codec = pair.rpartition(":")
        if not colon:
            raise ValueError(f"{pair!r} is not CODEC:CODEC, such as zstd:gzip")
        pairs[codec] = target_codec
    return pairs


_PARSERS: Final[dict[str, Callable[[str], object]]] = {
    "chunk_size": parse_size,
    "size": str,
    "recode": _recode,
    "trim_compressed": _yes_or_no,
    "split_at_gaps": _yes_or_no,
    "wrapper_size_max": _size_or_none,
    "compression_level": str,
}
