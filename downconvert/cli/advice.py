"""Advice for an error on a terminal, added to the error's own text.

Not here: the errors (records.errors)."""

from typing import Final

from records import CorruptRecordsError, RecordsError, UnsupportedCodecError

_NO_LOG: Final = ("unknown magic", "entry is smaller than a message header", "unknown codec")


def advice(error: RecordsError) -> str:
    """Advice such as ": is this a segment?", or an empty string."""
    match error:
        case UnsupportedCodecError(codec=codec):
            return f": --policy default converts it, or add recode={codec}:gzip"
        case CorruptRecordsError(reason=reason, position=0) if reason in _NO_LOG:
            return ": is this a segment (a .log file of a Kafka broker)?"
    return ""
