"""Errors of stores become one class for each reason, with the object's name."""

import errno

import pytest

from downconvert.spark.stores.store_errors import (
    WORDS_MAX,
    ForbiddenError,
    StoreError,
    ThrottledError,
    named_errors,
)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (OSError("AWS Error SLOW_DOWN"), ThrottledError),
        (OSError("HTTP 503"), ThrottledError),
        (OSError("HTTP 429 Forbidden, NoSuchKey"), ThrottledError),
        (OSError("HTTP 401"), ForbiddenError),
        (OSError("HTTP 403, bucket does not exist"), ForbiddenError),
        (OSError("accessdenied"), ForbiddenError),
        (PermissionError("no"), ForbiddenError),
        (OSError("NoSuchBucket"), FileNotFoundError),
        (OSError("HTTP status: 404"), FileNotFoundError),
        (FileNotFoundError("x"), FileNotFoundError),
        (OSError("part 14030 of 4290 and 5031 failed"), StoreError),
        (RuntimeError("Operation category READ is not supported in state standby"), StoreError),
        (RuntimeError("HTTP 503"), ThrottledError),
    ],
)
def test_an_error_has_the_class_of_its_reason(error: Exception, expected: type[OSError]) -> None:
    with pytest.raises(OSError, match="bucket/object") as caught, named_errors("bucket/object"):
        raise error
    assert type(caught.value) is expected
    assert caught.value.__cause__ is error


def test_a_missing_object_is_named_as_the_file_of_its_error() -> None:
    with pytest.raises(FileNotFoundError) as caught, named_errors("bucket/object"):
        raise OSError("NoSuchKey")
    assert (caught.value.errno, caught.value.filename) == (errno.ENOENT, "bucket/object")


def test_an_error_that_has_a_name_keeps_it() -> None:
    first = ThrottledError("inner")
    with pytest.raises(ThrottledError) as caught, named_errors("outer"):
        raise first
    assert caught.value is first


def test_a_long_text_of_several_lines_is_one_line_and_cut() -> None:
    with pytest.raises(StoreError) as caught, named_errors("n"):
        raise OSError("a\n  b " + "c" * WORDS_MAX)
    assert str(caught.value) == "n: a b " + "c" * (WORDS_MAX - 4)
