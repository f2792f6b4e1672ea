"""The errors of a log have words for people and fields for programs, and are caught by type."""

import pytest

from downconvert.storage import errors
from downconvert.storage.errors import (
    CorruptFileError,
    CorruptIndexError,
    DiskFullError,
    LogDirOfflineError,
    LogInUseError,
    OffsetOutOfRangeError,
    OffsetOverflowError,
    StorageError,
)
from records import RecordsError

MADE = [
    (
        OffsetOutOfRangeError(9, 3, 7, "t-0"),
        {"offset": 9, "start": 3, "end": 7},
        "offset 9 is not in t-0, which has 3 up to 7",
    ),
    (
        CorruptIndexError("it does not rise", "/d/0.index"),
        {"reason": "it does not rise", "path": "/d/0.index"},
        "/d/0.index: it does not rise; `downconvert recover` rebuilds it from the log",
    ),
    (
        CorruptFileError("no number", "/d/meta.properties"),
        {"reason": "no number", "path": "/d/meta.properties"},
        "/d/meta.properties: no number",
    ),
    (
        OffsetOverflowError(2**31 + 5, 5, "/d/5.log"),
        {"offset": 2**31 + 5},
        "/d/5.log: offset 2147483653 does not fit the base offset 5",
    ),
    (
        DiskFullError("/d/0.log"),
        {"path": "/d/0.log"},
        "no space left on the device for /d/0.log; nothing was changed",
    ),
    (
        LogDirOfflineError("/d", "input/output error"),
        {"path": "/d", "reason": "input/output error"},
        "/d is offline: input/output error",
    ),
    (
        LogInUseError("/d"),
        {"path": "/d"},
        "/d is open for writing elsewhere; stop that broker or process first",
    ),
]


@pytest.mark.parametrize(
    ("error", "fields", "words"), MADE, ids=[type(one[0]).__name__ for one in MADE]
)
def test_an_error_says_what_is_wrong_and_where(
    error: StorageError, fields: dict[str, object], words: str
) -> None:
    assert {name: getattr(error, name) for name in fields} == fields
    assert str(error) == words


def test_every_error_is_caught_as_one_of_storage_and_as_no_other() -> None:
    kinds = {one for one in vars(errors).values() if isinstance(one, type)} - {RecordsError}
    assert kinds == {type(error) for error, _, _ in MADE} | {StorageError}
    assert issubclass(StorageError, RecordsError)
    for kind in kinds - {StorageError}:
        assert kind.__bases__ == (StorageError,)
