from downconvert.protocol.error_codes import error_codes
from downconvert.protocol.schemas import ApiKey, Message


def test_errors_are_found_wherever_they_stand() -> None:
    partitions = [Message(error_code=code) for code in (0, 3, 3)] + [Message()]
    body = Message(
        error_code=70, responses=[Message(partitions=partitions), Message(partitions=())]
    )
    assert error_codes(ApiKey.Fetch, body) == {70: 1, 3: 2}


def test_fields_of_other_names_and_lists_that_are_null_count_too() -> None:
    partition = Message(results_by_partition=[Message(partition_error_code=55)])
    body = Message(error_code=0, results_by_topic_v3_and_below=[partition])
    assert error_codes(ApiKey.AddPartitionsToTxn, body) == {55: 1}
    assert not error_codes(ApiKey.Metadata, Message(topics=None))


def test_a_response_without_errors_has_none() -> None:
    assert not error_codes(ApiKey.ApiVersions, Message(error_code=0, api_keys=[]))
