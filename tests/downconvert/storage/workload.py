"""Makes random changes to a log, from a seed, and keeps its history.

Not here: checking the history (history.py), interruptions (faults.py)."""

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, Final

from downconvert.storage import DiskFullError, Log, LogConfig, LogDir, TopicPartition
from downconvert.storage.cleaning.maintenance import Maintenance
from downconvert.storage.cleaning.offset_map import SLOT_SIZE
from downconvert.storage.cleaning.retention import removable
from downconvert.storage.disk.files import DISK, Files
from records.batches.builder import build, build_marker
from records.batches.control import ControlRecordType
from records.formats import V0, V1, V2, Codec, TimestampType
from records.record import Record

from .history import History

PARTITION: Final = TopicPartition("crash", 0)
# Small, so that a few kilobytes make many segments, index entries and pages.
CONFIG: Final = LogConfig(segment_bytes=20_000, index_interval_bytes=500, segment_index_bytes=4800)
COMPACT: Final = replace(
    CONFIG, cleanup_policy=frozenset({"compact"}), min_cleanable_dirty_ratio=0.0
)
KEYS: Final = [b"key %d" % number for number in range(60)]
BUFFER_SIZE: Final = 40 * SLOT_SIZE  # fewer than there are keys: several passes
STEP_SIZE: Final = 3000  # bytes that the cleaner reads at a time
CODECS: Final = {V0: (Codec.NONE, Codec.GZIP), V1: (Codec.NONE, Codec.LZ4), V2: tuple(Codec)}
PRODUCER: Final = {"producer_id": 7, "producer_epoch": 0}


class Workload:
    """A log in a directory of its own. `note` is called with each change of the history."""

    def __init__(
        self,
        path: Path,
        history: History,
        random: Random,
        *,
        files: Files = DISK,
        note: Callable[..., None] = lambda *_: None,
    ) -> None:
        self._path = path
        self._history = history
        self._random = random
        self._files = files
        self._note = note
        self.refusals = 0  # steps that found the disk full

    def run(self, steps: int) -> None:
        """Opens the log, works, and closes it."""
        with LogDir.open(self._path, writable=True, config=CONFIG, files=self._files) as log_dir:
            log = log_dir.logs.create(PARTITION)
            self._history.check(log)
            self._keep("goes_on", log.start_offset, log.end_offset)
            self._maintenance = Maintenance(log, buffer_size=BUFFER_SIZE)
            for _ in range(steps):
                step = self._random.choices(
                    (
                        self._append,
                        self._flush,
                        self._roll,
                        self._truncate,
                        self._delete,
                        self._age,
                        self._clean,
                    ),
                    weights=(60, 10, 3, 3, 2, 2, 20),
                )[0]
                try:
                    step(log)
                except DiskFullError:
                    self.refusals += 1
                assert log.end_offset == self._history.end
            self._maintenance.close()
        self._keep("is_flushed")

    def _keep(self, change: str, *arguments: Any) -> None:
        self._note(change, *arguments)
        getattr(self._history, change)(*arguments)

    def _append(self, log: Log) -> None:
        random, values, batches = self._random, dict[int, bytes](), list[int]()
        keys = dict[int, bytes | None]()
        data, offset = bytearray(), self._history.end
        for _ in range(random.choice((1, 1, 1, 3))):
            magic = random.choice((V2, V2, V2, V1, V0))
            records = []
            for _ in range(random.choice((1, 2, 10))):
                value = random.randbytes(random.choice((3, 50, 700)))
                kind, time = TimestampType.CREATE, 10 * offset + random.randint(50, 150)
                if magic == V0:
                    kind, time = TimestampType.NONE, -1
                records.append(Record(offset, time, kind, random.choice(KEYS), value))
                offset += 1 + (random.random() < 0.1)  # as in a log that was compacted
            options: dict[str, Any] = {}
            if magic == V2:
                options["leader_epoch"] = offset // 100
                if random.random() < 0.3:
                    options |= PRODUCER | {"base_sequence": 0, "transactional": True}
            data += build(records, magic=magic, codec=random.choice(CODECS[magic]), **options)
            values |= {record.offset: record.value or b"" for record in records}
            is_open = "transactional" in options
            keys |= {record.offset: None if is_open else record.key for record in records}
            batches.append(records[0].offset)
            offset = records[-1].offset + 1
        if random.random() < 0.1:
            data += build_marker(ControlRecordType.ABORT, offset=offset, timestamp=0, **PRODUCER)
            offset += 1
        self._keep("will_append", values, keys, batches, offset)
        try:
            log.writer.append(bytes(data))
        except DiskFullError:
            self._keep("refused")
            raise

    def _flush(self, log: Log) -> None:
        log.writer.flush()
        self._keep("is_flushed")

    def _roll(self, log: Log) -> None:
        log.writer.roll()
        self._keep("is_flushed")

    def _truncate(self, log: Log) -> None:
        start, end = log.start_offset, self._history.end
        # As in Kafka, where nothing from the high watermark on is cleaned, and nothing below cut.
        lowest = min(end, max(start, end - 40, self._history.cleaned))
        offset = self._random.randint(lowest, end)
        self._keep("will_truncate", offset)
        try:
            log.writer.truncate_to(offset)
        except DiskFullError:  # it may have got a part of the way
            self._keep("ends_at", log.end_offset)
            raise
        self._keep("ends_at", log.end_offset)

    def _delete(self, log: Log) -> None:
        start, end = log.start_offset, self._history.end
        before = self._random.randint(start, (start + end) // 2)
        self._keep("will_delete", before)
        log.writer.delete_records(before)
        self._keep("starts_at", log.start_offset)

    def _age(self, log: Log) -> None:
        """Lets the oldest segments go, by time or by size."""
        if self._random.random() < 0.5:
            config, now = replace(CONFIG, retention_ms=5 * log.end_offset), 10 * log.end_offset
        else:
            config, now = replace(CONFIG, retention_ms=-1, retention_bytes=60_000), 0
        count = removable(log, config, now).count
        if count:
            bases = [segment.base_offset for segment in log.segments]
            self._keep("will_delete", [*bases, log.end_offset][count])
            with closing(Maintenance(log)) as maintenance:
                maintenance.step(config, now, 1)
            self._keep("starts_at", log.start_offset)

    def _clean(self, log: Log) -> None:
        """A few steps of the cleaner. Its pass continues while the log changes in other ways."""
        for _ in range(self._random.randint(1, 8)):
            self._keep("will_clean", log.segments[-1].base_offset)
            self._maintenance.step(COMPACT, 10 * log.end_offset, STEP_SIZE)
