"""Where fetches may be answered otherwise that waited while their topics changed, or that begin a
session."""

from typing import Final

from downconvert.protocol.schemas import ApiKey

from .difference import MayDiffer
from .operations import Operation
from .responses import Place

DELETED: Final = "a topic is deleted"
EARLY: Final = "answered early"  # before the time of the wait was over
CONVERTED: Final = 3  # the last version of Fetch for which batches are converted


def _waits(asked: Operation) -> bool:
    return asked.api is ApiKey.Fetch and asked.body.max_wait_ms > 0


def _errors(place: Place) -> tuple[int | None, int | None]:
    theirs, own = (around.get("error_code") for around in place.around)
    return theirs, own


WAITS: Final = (
    MayDiffer(
        "Fetch that begins a session, while nearly all slots are taken",
        "a session, or none",
        "a session, while there is a slot",
        "Kafka divides its slots into eight parts, and looks into one of them.",
        lambda asked, place: (
            asked.api is ApiKey.Fetch
            and place.is_in("session_id")
            and place.kafka == 0
            and bool(place.ours)
        ),
        keeps_step=False,
    ),
    MayDiffer(
        "Fetch that waits, of several partitions of a topic that is deleted meanwhile",
        "3, UNKNOWN_TOPIC_OR_PARTITION, for one or several of them; the others as before",
        "3, UNKNOWN_TOPIC_OR_PARTITION, or 100, UNKNOWN_TOPIC_ID, for all",
        "Kafka deletes one partition after the other, and answers after the first.",
        lambda asked, place: (
            _waits(asked) and (place.path == DELETED or _errors(place) in ((0, 3), (0, 100)))
        ),
    ),
    MayDiffer(
        "Fetch that waits for more than a byte, of a log that is rolled meanwhile; or below 4, of "
        "records in several segments",
        "what there is, at once",
        "waits for as many bytes as it asks for",
        "There may be as many before its time is over.",
        lambda asked, place: (
            place.path == EARLY and asked.body.min_bytes > 1 and place.kafka and not place.ours
        ),
    ),
    MayDiffer(
        "Fetch that waits, of records that are deleted meanwhile",
        "1, OFFSET_OUT_OF_RANGE, after the wait",
        "1, OFFSET_OUT_OF_RANGE, at once",
        "It would get no records after the wait, either.",
        lambda _, place: (
            place.path == EARLY
            and ApiKey.DeleteRecords in place.around[1]["meanwhile"]
            and not place.kafka
            and place.ours
        ),
    ),
    MayDiffer(
        "Fetch below 4 that waits for more than a byte, of records that the topic does not convert",
        "35, UNSUPPORTED_VERSION, after the wait",
        "35, UNSUPPORTED_VERSION, at once",
        "It would get no records after the wait, either.",
        lambda asked, place: (
            _waits(asked)
            and asked.version <= CONVERTED
            and (_errors(place)[1] == 35 or (place.path == EARLY and not place.kafka))
        ),
    ),
)
