"""The compiled kernel, native/src/python: what it does is in kernel.py, kernel_functions.py."""

from .kernel import Buffer, Progress, Recodes, Transferred
from .kernel_functions import Taken
from .python_record import Record as Record

class Transcoder:
    def __new__(
        cls, to_magic: int, first_offset: int, pass_codecs: int, stop_transactional: bool
    ) -> Transcoder: ...
    def enter_batch(
        self, header: Buffer, at: int, wrapper: bool, trim: bool, split_at_gaps: bool
    ) -> None: ...
    def enter_entries(
        self,
        to_magic: int,
        offset_delta: int,
        append_time: int | None,
        wrapper: bool,
        trim: bool,
        split_at_gaps: bool,
    ) -> None: ...
    def start_wrapper(self) -> None: ...
    def allow_next(self) -> None: ...
    def leave(self) -> None: ...
    def transcode(
        self,
        source: Buffer,
        start: int,
        end: int,
        remaining: int,
        target: Buffer,
        at: int,
        limit: int,
    ) -> Progress: ...
    def measure(
        self, source: Buffer, start: int, end: int, remaining: int, room: int
    ) -> Progress: ...
    def measure_from(
        self,
        source: int | Buffer,
        position: int,
        end: int,
        chunk_size: int,
        room: int,
        budget: int,
    ) -> Progress: ...
    def columns(
        self,
        source: Buffer,
        start: int,
        end: int,
        remaining: int,
        target: Buffer,
        at: int,
        limit: int,
    ) -> Progress: ...
    def transfer(
        self,
        source: int | Buffer,
        position: int,
        end: int,
        chunk_size: int,
        channel: int,
        is_socket: bool,
        promised: int,
        budget: int,
        recodes: Recodes | None = None,
    ) -> Transferred: ...
    def recode(
        self,
        source: Buffer,
        start: int,
        end: int,
        codec: int,
        fast: bool,
        trim: bool,
        split_at_gaps: bool,
        body_size_max: int,
        inner_size_max: int,
    ) -> bytes | None: ...
    def record_head(
        self, source: Buffer, start: int, end: int, remaining: int
    ) -> tuple[int, int, int, int, int] | None: ...
    def record_converted(
        self, source_size: int, offset: int, timestamp: int, message_size: int
    ) -> None: ...
    @property
    def damage(self) -> tuple[str, int] | None: ...
    @property
    def in_batch(self) -> bool: ...
    @property
    def append_time(self) -> int | None: ...
    @property
    def totals(self) -> tuple[int, int, int, int, int]: ...
    @property
    def decompressed(self) -> int: ...
    @property
    def wrapper(self) -> tuple[int, int, int, int, int]: ...
    @property
    def last_offset(self) -> int: ...

class ArrowColumns:
    def __new__(
        cls,
        rows_max: int,
        bytes_max: int,
        keys: bool,
        values: bool,
        headers: bool,
        offsets: tuple[int, int],
        timestamps: tuple[int, int],
    ) -> ArrowColumns: ...
    def __len__(self) -> int: ...
    def add_entries(
        self,
        source: Buffer,
        start: int,
        end: int,
        verify: bool,
        transactional: bool,
        size_max: int,
    ) -> tuple[int, bool]: ...
    def add_rows(self, rows: Buffer, start: int, end: int, source: Buffer) -> int: ...
    def take(self) -> Taken: ...

def encode(
    rows: Buffer,
    rows_start: int,
    rows_end: int,
    source: Buffer,
    magic: int,
    base_offset: int,
    base_timestamp: int,
    target: Buffer,
    at: int,
    limit: int,
) -> Progress: ...
def read_entries(
    source: Buffer, start: int, end: int, verify: bool, control: bool, size_max: int
) -> tuple[list[Record], int]: ...
def make_records(
    rows: Buffer,
    rows_start: int,
    rows_end: int,
    source: Buffer,
    base_offset: int,
    base_sequence: int,
) -> list[Record]: ...
def make_inner_records(
    rows: Buffer,
    rows_start: int,
    rows_end: int,
    source: Buffer,
    at: int,
    timestamp_type: int,
    verify: bool,
) -> tuple[list[Record], int]: ...
def crc32(source: Buffer, start: int, end: int, value: int = 0) -> int: ...
def file_stamps(paths: list[bytes]) -> bytes: ...
def gzip_compress(source: Buffer, start: int, end: int, level: int) -> bytes: ...
def decompress(
    codec: int, source: Buffer, start: int, end: int, magic: int, limit: int
) -> bytes | None: ...
