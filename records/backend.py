"""Chooses the kernel: the native one if it has been built, else its twin in Python.

`LAZY_DOWNCONVERT_BACKEND=native` or `=reference` in the environment forces one. `NAME` is its name,
for messages: the reference gives the same results, many times slower.

Not here: the functions of a kernel (kernel.py)."""

from typing import TYPE_CHECKING

from .backend_name import ENVIRONMENT_VARIABLE, NAME, NATIVE, REFERENCE

if TYPE_CHECKING:
    from . import kernel, kernel_functions

    ArrowColumns: type[kernel_functions.ArrowColumns]
    Transcoder: type[kernel.Transcoder]
    encode: kernel_functions.Encode
    crc32: kernel_functions.Crc32
    file_stamps: kernel_functions.FileStamps
    keyed_batch: kernel_functions.KeyedBatch
    make_records: kernel_functions.MakeRecords
    make_inner_records: kernel_functions.MakeInnerRecords
    read_entries: kernel_functions.ReadEntries
    summarize_batch: kernel_functions.SummarizeBatch
elif NAME == NATIVE:
    from .native import (
        ArrowColumns,
        Transcoder,
        crc32,
        encode,
        file_stamps,
        keyed_batch,
        make_inner_records,
        make_records,
        read_entries,
        summarize_batch,
    )
else:
    from .reference import (
        ArrowColumns,
        Transcoder,
        crc32,
        encode,
        file_stamps,
        keyed_batch,
        make_inner_records,
        make_records,
        read_entries,
        summarize_batch,
    )

__all__ = [
    "ENVIRONMENT_VARIABLE",
    "NAME",
    "NATIVE",
    "REFERENCE",
    "ArrowColumns",
    "Transcoder",
    "crc32",
    "encode",
    "file_stamps",
    "keyed_batch",
    "make_inner_records",
    "make_records",
    "read_entries",
    "summarize_batch",
]
