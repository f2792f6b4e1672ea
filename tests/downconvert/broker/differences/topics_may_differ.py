"""Where responses about topics and settings may differ."""

from typing import Any, Final

from downconvert.protocol.schemas import ApiKey

from .difference import MayDiffer
from .identities import Token
from .operations import Operation
from .values import NO_ID, UNKNOWN_ID

TOPIC, BROKER, METRICS = 2, 4, 16  # types of resources
KNOWN: Final = (TOPIC, BROKER, METRICS)
ALTERING: Final = (ApiKey.AlterConfigs, ApiKey.IncrementalAlterConfigs)


def _topics(asked: Operation) -> list[Any]:
    return asked.body.topics or []


def _id(topic: Any) -> Any:
    """The id of a topic in a request: one that both servers know has a token."""
    return UNKNOWN_ID if isinstance(topic.topic_id, Token) else topic.topic_id


TOPICS: Final = (
    MayDiffer(
        "CreateTopics, `validate_only`: the topic's id",
        "one that no topic gets",
        "none",
        "No topic is made.",
        lambda asked, place: (
            asked.api is ApiKey.CreateTopics
            and getattr(asked.body, "validate_only", False)
            and place.is_in("topic_id")
        ),
    ),
    MayDiffer(
        "Metadata of some topics by name and of others by id, or of one by both",
        "leaves out names",
        "all of them; by its name, where there are both",
        "No client sends such a request.",
        lambda asked, place: (
            asked.api is ApiKey.Metadata
            and asked.version >= 12
            and None in (place.kafka, place.ours)
            and any(one.name is None or bytes(_id(one)) != NO_ID for one in _topics(asked))
            and any(one.name is not None for one in _topics(asked))
        ),
    ),
    MayDiffer(
        "DeleteTopics of `__consumer_offsets` or `__transaction_state`",
        "deletes it",
        "17, INVALID_TOPIC_EXCEPTION",
        "All groups would lose their offsets, and producers their epochs.",
        lambda asked, place: (
            asked.api is ApiKey.DeleteTopics and place.is_in("error_code") and place.ours == 17
        ),
    ),
    MayDiffer(
        "AlterConfigs, IncrementalAlterConfigs of anything but a topic",
        "the setting changes, or an error",
        "42, INVALID_REQUEST",
        "The broker's settings are on its command line, and there are no client metrics.",
        lambda asked, place: (
            asked.api in ALTERING
            and place.ours == 42
            and not place.path.startswith(f"responses.{TOPIC} ")
        ),
    ),
    MayDiffer(
        "IncrementalAlterConfigs with an unknown operation",
        "-1, UNKNOWN_SERVER_ERROR, for all topics, or the error of another setting",
        "42, INVALID_REQUEST, for that topic",
        "The request is wrong, not the server.",
        lambda asked, place: (
            asked.api is ApiKey.IncrementalAlterConfigs
            and place.is_in("error_code")
            and any(
                config.config_operation not in range(4)
                for one in asked.body.resources
                for config in one.configs
            )
        ),
        keeps_step=False,
    ),
    MayDiffer(
        "DescribeConfigs of a broker",
        "all of its settings",
        "those that clients and tools use",
        "The others do not exist here.",
        lambda asked, place: (
            asked.api is ApiKey.DescribeConfigs and place.path.startswith(f"results.{BROKER} ")
        ),
    ),
    MayDiffer(
        "DescribeConfigs of several, one of an unknown type",
        "42, INVALID_REQUEST, for each",
        "42 for that one",
        "The others have settings.",
        lambda asked, _: (
            asked.api is ApiKey.DescribeConfigs
            and any(one.resource_type not in KNOWN for one in asked.body.resources)
        ),
    ),
    MayDiffer(
        "DescribeConfigs, version 0: `is_default`",
        "false",
        "whether it is the default",
        "Kafka says it from version 1 on, in another field.",
        lambda asked, place: asked.api is ApiKey.DescribeConfigs and place.is_in("is_default"),
    ),
)
