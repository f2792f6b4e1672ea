"""What a client is told that asks for what it may not have: an error for each partition."""

from downconvert.broker.errors import ErrorCode
from downconvert.broker.wire.schemas import ApiKey, Message

from .headers import Header

DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def refusal(header: Header, body: Message) -> Message:
    """The answer to a Fetch, a Produce or a ListOffsets, all of which is refused."""
    match header.api:
        case ApiKey.Fetch:
            return Message(
                responses=[
                    Message(
                        topic=topic.topic,
                        topic_id=topic.topic_id,
                        partitions=[
                            Message(
                                partition_index=one.partition, error_code=DENIED, high_watermark=-1
                            )
                            for one in topic.partitions
                        ],
                    )
                    for topic in body.topics
                ]
            )
        case ApiKey.Produce:
            return Message(
                responses=[
                    Message(
                        name=topic.name,
                        topic_id=topic.topic_id,
                        partition_responses=[
                            Message(index=one.index, error_code=DENIED, base_offset=-1)
                            for one in topic.partition_data
                        ],
                    )
                    for topic in body.topic_data
                ]
            )
        case _:
            return Message(
                topics=[
                    Message(
                        name=topic.name,
                        partitions=[
                            Message(partition_index=one.partition_index, error_code=DENIED)
                            for one in topic.partitions
                        ],
                    )
                    for topic in body.topics
                ]
            )
