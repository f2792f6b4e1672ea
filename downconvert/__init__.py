"""Lazy down-conversion of Kafka records: a bounded chunk at a time, while they are sent.

    with FileRecords.open("00000000000000000000.log") as log:
        lazy = LazyDownConvertRecords(log, to_magic=1, first_offset=42)
        send = lazy.to_send()
        while not send.completed:
            send.write_to(sock)

What each policy option does and why its default is what it is: docs/conversion.md.

Names are loaded on first use, so `import downconvert` does not load the kernel."""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from downconvert.conversion.eager import Conversion, convert, eager
    from downconvert.conversion.lazy import LazyDownConvertRecords
    from downconvert.conversion.policy import AbortedTransaction, ConversionPolicy
    from downconvert.conversion.recode import LazyRecodedRecords
    from downconvert.conversion.send import LazyDownConvertSend
    from downconvert.conversion.stats import ConversionStats

__all__ = [
    "AbortedTransaction",
    "Conversion",
    "ConversionPolicy",
    "ConversionStats",
    "LazyDownConvertRecords",
    "LazyDownConvertSend",
    "LazyRecodedRecords",
    "convert",
    "eager",
]

_MODULES: Final = {
    "AbortedTransaction": "policy",
    "Conversion": "eager",
    "ConversionPolicy": "policy",
    "ConversionStats": "stats",
    "LazyDownConvertRecords": "lazy",
    "LazyDownConvertSend": "send",
    "LazyRecodedRecords": "recode",
    "convert": "eager",
    "eager": "eager",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"downconvert.conversion.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
