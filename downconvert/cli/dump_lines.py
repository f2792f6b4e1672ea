"""Batches and records as lines, like Kafka's own dump tool or as JSON.

Not here: finding batches and records (dump.py)."""

import base64
import json
from pathlib import Path
from typing import Any, Final, Protocol

from records import BatchHeader
from records.batches.control import ControlRecordType, EndTransactionMarker
from records.batches.reader import Record
from records.formats import TIMESTAMP_TYPE_NAMES, V2

SHOWN_MAX: Final = 120  # characters of a key or a value, unless all are requested
_RESET, _DIM, _BOLD, _RED, _GREEN, _CYAN = (f"\033[{code}m" for code in (0, 2, 1, 31, 32, 36))


class Lines(Protocol):
    """The form of a dump."""

    def file(self, path: Path) -> str: ...

    def batch(self, header: BatchHeader, is_valid: bool) -> str: ...

    def record(self, header: BatchHeader, record: Record) -> str: ...


class TextLines:
    """Lines like those of Kafka's DumpLogSegments. Keys and values are text if they are valid
    text."""

    def __init__(self, *, colours: bool, full: bool) -> None:
        self._colours = colours
        self._full = full

    def file(self, path: Path) -> str:
        return self._paint(f"Dumping {path}", _BOLD)

    def batch(self, header: BatchHeader, is_valid: bool) -> str:
        if header.magic == V2:
            horizon = header.base_timestamp if header.has_delete_horizon else None
            fields = {
                "baseOffset": header.base_offset,
                "lastOffset": header.last_offset,
                "count": header.records_count,
                "baseSequence": header.base_sequence,
                "lastSequence": header.last_sequence,
                "producerId": header.producer_id,
                "producerEpoch": header.producer_epoch,
                "partitionLeaderEpoch": header.leader_epoch,
                "isTransactional": _truth(header.is_transactional),
                "isControl": _truth(header.is_control),
                "deleteHorizonMs": f"OptionalLong{'.empty' if horizon is None else [horizon]}",
            }
        else:
            fields = {"offset": header.last_offset}
        fields |= {
            "position": header.position,
            TIMESTAMP_TYPE_NAMES[header.timestamp_type]: header.max_timestamp,
            "size": header.size,
            "magic": header.magic,
            "compresscodec": header.codec.name.lower(),
            "crc": header.crc,
        }
        line = " ".join(self._field(name, value, _BOLD) for name, value in fields.items())
        return f"{line} {self._field('isvalid', _truth(is_valid), _GREEN if is_valid else _RED)}"

    def record(self, header: BatchHeader, record: Record) -> str:
        fields: dict[str, object] = {
            "offset": record.offset,
            TIMESTAMP_TYPE_NAMES[record.timestamp_type]: record.timestamp,
            "keySize": _size(record.key),
            "valueSize": _size(record.value),
        }
        if header.magic == V2:
            keys = ",".join(
                self._readable(key.encode("utf-8", "surrogateescape")) for key, _ in record.headers
            )
            fields |= {"sequence": record.sequence, "headerKeys": f"[{keys}]"}
        if header.is_control:
            fields |= _control(record)
            shown: dict[str, bytes | None] = {}
        else:
            shown = {"key": record.key, "payload": record.value}
        parts = [self._field(name, value) for name, value in fields.items()]
        parts += [self._field(name, self._readable(value), _CYAN) for name, value in shown.items()]
        return f"{self._paint('|', _DIM)} {' '.join(parts)}"

    def _readable(self, data: bytes | None) -> str:
        """Text if it is valid text, else hexadecimal digits. Long data is cut, unless all is
        requested."""
        if data is None:
            return "null"
        head = data if self._full else data[: 4 * SHOWN_MAX]
        try:
            text = head.decode()
        except UnicodeDecodeError as error:
            cut = not self._full and len(data) > len(head) and error.start > len(head) - 4
            text = head[: error.start].decode() if cut else f"0x{head.hex()}"
        if not text.isprintable():
            text = f"0x{head.hex()}"
        if self._full or len(text) <= SHOWN_MAX:
            return text
        return f"{text[:SHOWN_MAX]}... ({len(data):,} bytes)"

    def _field(self, name: str, value: object, colour: str = "") -> str:
        if not self._colours:
            return f"{name}: {value}"
        return f"{_DIM}{name}:{_RESET} {self._paint(str(value), colour)}"

    def _paint(self, text: str, colour: str) -> str:
        return f"{colour}{text}{_RESET}" if self._colours and colour else text


class JsonLines:
    """One complete JSON object a line. Bytes that are not UTF-8 become {"base64": ...}."""

    def __init__(self) -> None:
        self._file = ""

    def file(self, path: Path) -> str:
        self._file = str(path)
        return ""

    def batch(self, header: BatchHeader, is_valid: bool) -> str:
        fields: dict[str, object] = {
            "type": "batch",
            "file": self._file,
            "position": header.position,
            "size": header.size,
            "magic": header.magic,
            "baseOffset": header.base_offset,
            "lastOffset": header.last_offset,
            "count": header.records_count,
            "codec": header.codec.name.lower(),
            "timestampType": TIMESTAMP_TYPE_NAMES[header.timestamp_type],
            "maxTimestamp": header.max_timestamp,
            "crc": header.crc,
            "isValid": is_valid,
        }
        if header.magic == V2:
            fields |= {
                "partitionLeaderEpoch": header.leader_epoch,
                "producerId": header.producer_id,
                "producerEpoch": header.producer_epoch,
                "baseSequence": header.base_sequence,
                "lastSequence": header.last_sequence,
                "isTransactional": header.is_transactional,
                "isControl": header.is_control,
                "deleteHorizonMs": header.base_timestamp if header.has_delete_horizon else None,
            }
        return json.dumps(fields)

    def record(self, header: BatchHeader, record: Record) -> str:
        fields: dict[str, Any] = {
            "type": "record",
            "file": self._file,
            "position": header.position,
            "offset": record.offset,
            "timestamp": record.timestamp,
            "timestampType": TIMESTAMP_TYPE_NAMES[record.timestamp_type],
            "key": _json(record.key),
            "value": _json(record.value),
        }
        if header.magic == V2:
            fields["sequence"] = record.sequence
            fields["headers"] = [
                [_json(key.encode("utf-8", "surrogateescape")), _json(value)]
                for key, value in record.headers
            ]
        if header.is_control:
            fields |= _control(record)
        return json.dumps(fields)


def _control(record: Record) -> dict[str, object]:
    """The fields of a control record."""
    kind = ControlRecordType.parse(record.key, 0)
    if kind not in (ControlRecordType.ABORT, ControlRecordType.COMMIT):
        return {"controlType": kind.name}
    marker = EndTransactionMarker.parse(record.key, record.value, 0)
    return {"endTxnMarker": kind.name, "coordinatorEpoch": marker.coordinator_epoch}


def _truth(value: bool) -> str:
    return "true" if value else "false"


def _size(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def _json(data: bytes | None) -> object:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}
