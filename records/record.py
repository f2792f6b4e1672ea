"""The class `Record` of the chosen kernel.

The compiled `Record` is made in a tenth of the time. It behaves like the dataclass in Python: it
compares, hashes, prints, pickles and is replaced in the same way.

Not here: making records from bytes (reader.py, kernel.py).

Sources: Kafka's DefaultRecord and LegacyRecord."""

from struct import Struct
from typing import TYPE_CHECKING, Final, TypeAlias

from .backend_name import NAME, NATIVE
from .kernel import ROW_FIELDS, ROW_SIZE
from .python_record import Headers, Record

__all__ = ["ROW", "Headers", "Record", "Row"]

Row: TypeAlias = tuple[int, ...]

ROW: Final = Struct(f"={len(ROW_FIELDS)}q")
assert ROW.size == ROW_SIZE

if not TYPE_CHECKING and NAME == NATIVE:
    from . import native, python_record

    # The attributes that `dataclasses` and `match` use, and the docstring.
    for name in ("__dataclass_fields__", "__dataclass_params__", "__match_args__", "__doc__"):
        setattr(native.Record, name, getattr(python_record.Record, name))
    if hasattr(python_record.Record, "__replace__"):  # since Python 3.13
        native.Record.__replace__ = python_record.Record.__replace__
    Record = native.Record
