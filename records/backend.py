"""Which kernel runs: the native one where it has been built, else its twin in Python.

`LAZY_DOWNCONVERT_BACKEND=native` or `=reference` in the environment forces one. `NAME` says which
it is, for whoever tells people: the reference does the same, many times slower.

Not here: what a kernel does (kernel.py)."""

from typing import TYPE_CHECKING

from .backend_name import ENVIRONMENT_VARIABLE, NAME, NATIVE, REFERENCE

if TYPE_CHECKING:
    from . import kernel

    Transcoder: type[kernel.Transcoder]
    encode: kernel.Encode
    crc32: kernel.Crc32
    make_records: kernel.MakeRecords
    make_inner_records: kernel.MakeInnerRecords
    gather_column: kernel.GatherColumn
    gather_headers: kernel.GatherHeaders
    read_entries: kernel.ReadEntries
elif NAME == NATIVE:
    from .native import (
        Transcoder,
        crc32,
        encode,
        gather_column,
        gather_headers,
        make_inner_records,
        make_records,
        read_entries,
    )
else:
    from .reference import (
        Transcoder,
        crc32,
        encode,
        gather_column,
        gather_headers,
        make_inner_records,
        make_records,
        read_entries,
    )

__all__ = [
    "ENVIRONMENT_VARIABLE",
    "NAME",
    "NATIVE",
    "REFERENCE",
    "Transcoder",
    "crc32",
    "encode",
    "gather_column",
    "gather_headers",
    "make_inner_records",
    "make_records",
    "read_entries",
]
