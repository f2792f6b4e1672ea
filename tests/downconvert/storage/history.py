"""The history of a log, kept beside it, and the records that must therefore remain after a crash.

The found records must be a beginning of the history that has all flushed records. After a cleaning,
a record may be missing if a later one has its key, or if its transaction was aborted. The last
record of each key is never missing.

Not here: making changes (workload.py)."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from downconvert.storage import Log
from records import CorruptRecordsError


@dataclass
class History:
    """Each change is announced before it is made, and confirmed afterwards: a crash may come in
    between. Offsets are those of records."""

    values: dict[int, bytes] = field(default_factory=dict)  # by offset
    keys: dict[int, bytes | None] = field(default_factory=dict)  # None: of a transaction
    batches: list[int] = field(default_factory=list)  # first offsets
    start: int = 0
    start_at_most: int = 0  # while records are being deleted
    end: int = 0
    end_before: int = 0  # the append that was announced last
    flushed: int = 0  # all below this must be there
    cleaned: int = 0  # the cleaner may have been up to here

    # --- changes

    def goes_on(self, start: int, end: int) -> None:
        """The log was opened, and this is what is left of it. All of that is safe."""
        self.start = self.start_at_most = start
        self.ends_at(end)
        self.flushed = end

    def will_append(
        self,
        values: dict[int, bytes],
        keys: dict[int, bytes | None],
        batches: list[int],
        end: int,
    ) -> None:
        self.end_before, self.end = self.end, end
        self.values.update(values)
        self.keys.update(keys)
        self.batches += batches

    def refused(self) -> None:
        """The append failed, and left nothing."""
        self.ends_at(self.end_before)

    def is_flushed(self) -> None:
        self.flushed = self.end

    def will_truncate(self, offset: int) -> None:
        batch = max((first for first in self.batches if first <= offset), default=0)
        self.flushed = min(self.flushed, batch)

    def will_delete(self, before: int) -> None:
        self.start_at_most = max(self.start_at_most, before)

    def will_clean(self, end: int) -> None:
        self.cleaned = max(self.cleaned, end)

    def starts_at(self, offset: int) -> None:
        self.start = self.start_at_most = offset

    def ends_at(self, offset: int) -> None:
        self.end = offset
        self.values = {o: v for o, v in self.values.items() if o < offset}
        self.keys = {o: k for o, k in self.keys.items() if o < offset}
        self.batches = [first for first in self.batches if first < offset]

    # --- checks

    def check(self, log: Log) -> None:
        """Asserts that the log is a beginning of the history, with everything that was flushed."""
        start, end = log.start_offset, log.end_offset
        assert self.start <= start <= self.start_at_most, f"begins at {start}"
        assert end >= self.flushed, f"ends at {end} of {self.flushed} flushed offsets"
        found = {record.offset: record.value for record in log.records()}
        expected = {o: v for o, v in self.values.items() if start <= o < end}
        missing = self._missing(expected.keys() - found.keys())
        assert not missing, f"not there: {missing[:5]}"
        assert all(expected.get(offset) == value for offset, value in found.items())

    def _missing(self, offsets: Iterable[int]) -> list[int]:
        """Those of `offsets` that the cleaner may not have taken."""
        last = {key: o for o, key in self.keys.items() if key is not None and o < self.cleaned}
        return sorted(
            o
            for o in offsets
            if o >= self.cleaned or ((key := self.keys[o]) is not None and o >= last[key])
        )

    def check_as_it_lies(self, log: Log) -> None:
        """The same of a log that nobody has recovered: damage may be what ends it."""
        found = {}
        try:
            for record in log.records():
                found[record.offset] = record.value
        except CorruptRecordsError:
            pass
        start = max(log.start_offset, self.start)
        there = {o for o in self.values if start <= o < self.flushed}
        lost = self._missing(there - found.keys())
        assert not lost, f"flushed, and not read: {lost[:5]}"
        assert all(self.values.get(offset) == value for offset, value in found.items())
