"""Lazy down-conversion of Kafka records: a bounded chunk at a time, while they are sent.

    with FileRecords.open("00000000000000000000.log") as log:
        lazy = LazyDownConvertRecords(log, to_magic=1, first_offset=42)
        send = lazy.to_send()
        while not send.completed:
            send.write_to(sock)

What each policy option does and why its default is what it is: docs/conversion.md."""

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
