"""The text of each error says where it is, what it is, and which option lets the query continue."""

import pytest

from downconvert.spark import errors
from downconvert.spark.errors import (
    CorruptSegmentError,
    CorruptStateError,
    DataLossError,
    MissingOffsetsError,
    MixedClustersError,
    NotMountedError,
    SegmentChangedError,
)
from records import CorruptRecordsError, RecordsError

DAMAGE = CorruptRecordsError("checksum does not match", 7)


@pytest.mark.parametrize(
    ("error", "begins", "options"),
    [
        (
            CorruptSegmentError("/a-0/0.log", DAMAGE),
            f"/a-0/0.log: {DAMAGE}; the option ",
            ("PERMISSIVE", "DROPMALFORMED"),
        ),
        (
            MissingOffsetsError("a-0: offsets 2 up to 5 are missing"),
            "a-0: offsets 2 up to 5 are missing; if compaction ",
            ("compacted", "failOnDataLoss=false", "PERMISSIVE", "DROPMALFORMED"),
        ),
        (
            CorruptStateError("/__consumer_offsets-0/0.log", "the record at offset 3: odd"),
            "/__consumer_offsets-0/0.log: the record at offset 3: odd; the option ",
            ("PERMISSIVE", "DROPMALFORMED"),
        ),
        (SegmentChangedError("/a-0/0.log"), "/a-0/0.log was cleaned or truncated after ", ()),
        (
            DataLossError("a-0: offsets 2 up to 5 were deleted"),
            "a-0: offsets 2 up to 5 were deleted; the option ",
            ("failOnDataLoss=false",),
        ),
        (NotMountedError("/logs", "host-3"), "/logs is not on host-3: mount it there ", ()),
    ],
    ids=lambda one: type(one).__name__ if isinstance(one, Exception) else "",
)
def test_an_error_says_where_what_and_which_option_continues(
    error: RecordsError, begins: str, options: tuple[str, ...]
) -> None:
    text = str(error)
    assert text.startswith(begins)
    assert "\n" not in text
    every = ("compacted", "failOnDataLoss=false", "PERMISSIVE", "DROPMALFORMED")
    assert tuple(option for option in every if option in text) == options


def test_each_error_is_caught_by_its_own_class_only() -> None:
    """A loss that failOnDataLoss allows is distinguished from other errors, and a failed task is
    not damage."""
    ours = (
        CorruptSegmentError,
        CorruptStateError,
        DataLossError,
        MissingOffsetsError,
        MixedClustersError,
        NotMountedError,
        SegmentChangedError,
    )
    for one in ours:
        assert issubclass(one, RecordsError)
        assert [other for other in ours if issubclass(one, other)] == [one]
        assert not issubclass(one, (OSError, ValueError, CorruptRecordsError))
    assert not issubclass(errors.TaskFailedError, RecordsError)
