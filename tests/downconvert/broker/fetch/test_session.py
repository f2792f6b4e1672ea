"""One session: what is news for its client."""

from typing import Any

import pytest

from downconvert.broker.fetch.session import Asked, Cached
from downconvert.protocol.errors import ErrorCode
from downconvert.protocol.schemas import Message


def result(topic: str, records: bytes = b"", **fields: Any) -> Message:
    return Message(key=(topic, 0), records=records, **{"high_watermark": 5} | fields)


@pytest.mark.parametrize(
    "fields",
    [
        {"records": b"records"},
        {"high_watermark": 6},
        {"log_start_offset": 1},
        {"error_code": ErrorCode.UNKNOWN_SERVER_ERROR},
        {"diverging_epoch": Message(epoch=1, end_offset=1)},
    ],
)
def test_each_kind_of_change_is_reported(fields: dict[str, Any]) -> None:
    one = Cached(Asked("a", 0, 0, 1, -1, -1, -1))
    assert one.is_news(result("a"))
    assert not one.is_news(result("a"))
    assert one.is_news(result("a", **fields))


def test_the_first_result_after_an_error_is_news() -> None:
    one = Cached(Asked("a", 0, 0, 1, -1, -1, -1))
    assert one.is_news(result("a"))
    assert one.is_news(result("a", error_code=ErrorCode.CORRUPT_MESSAGE))
    assert one.is_news(result("a"))
    assert not one.is_news(result("a"))
