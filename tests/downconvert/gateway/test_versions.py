from downconvert.broker.wire.schemas import ApiKey, Message
from downconvert.gateway.versions import Versions

KAFKA_4 = {0: (0, 13), 1: (4, 18), 2: (1, 11), 3: (0, 13), 8: (2, 10), 18: (0, 5), 17: (0, 1)}
KAFKA_4 |= {36: (0, 2), 68: (0, 1), 78: (1, 2), 1: (4, 18)}


def versions(
    *, is_read_only: bool = False, names_topics: bool = False, hides_sasl: bool = False
) -> Versions:
    keys = [
        Message(api_key=key, min_version=low, max_version=high)
        for key, (low, high) in KAFKA_4.items()
    ]
    return Versions.of(
        Message(api_keys=keys),
        is_read_only=is_read_only,
        names_topics=names_topics,
        hides_sasl=hides_sasl,
    )


def test_what_the_cluster_dropped_is_offered() -> None:
    offered = versions().offered
    assert offered[ApiKey.Fetch].start == offered[ApiKey.ListOffsets].start == 0
    assert offered[ApiKey.OffsetCommit] == range(11)


def test_what_nobody_here_knows_is_offered_as_the_cluster_has_it() -> None:
    assert versions().offered[68] == range(2)


def test_fetches_whose_answers_name_brokers_are_not_offered() -> None:
    assert versions().offered[ApiKey.Fetch].stop - 1 == 15


def test_apis_whose_answers_name_brokers_in_unknown_fields_are_not_offered() -> None:
    assert 78 not in versions().offered


def test_a_cluster_that_only_claims_to_take_old_produces_gets_none() -> None:
    assert not versions().passes(ApiKey.Produce, 2)
    assert versions().passes(ApiKey.Produce, 3)
    assert not versions().passes(ApiKey.Fetch, 3)
    assert versions().passes(ApiKey.Fetch, 4)


def test_who_may_only_read_is_offered_nothing_else() -> None:
    offered = versions(is_read_only=True).offered
    assert ApiKey.Produce not in offered
    assert {ApiKey.Fetch, ApiKey.OffsetCommit, 68} <= offered.keys()


def test_topics_of_a_list_cannot_be_asked_for_by_id() -> None:
    offered = versions(names_topics=True).offered
    assert offered[ApiKey.Fetch].stop - 1 == 12
    assert offered[ApiKey.Produce].stop - 1 == 12
    assert offered[ApiKey.OffsetCommit].stop - 1 == 9


def test_where_the_gateway_authenticates_itself_clients_are_not_asked_to() -> None:
    assert ApiKey.SaslHandshake in versions().offered
    assert ApiKey.SaslHandshake not in versions(hides_sasl=True).offered


def test_old_requests_are_translated_to_the_oldest_that_the_cluster_takes() -> None:
    assert versions().nearest(ApiKey.ListOffsets) == 1
    assert versions().nearest(ApiKey.Produce) == 3


def test_the_answer_keeps_what_else_the_cluster_says() -> None:
    cluster = Message(api_keys=[], finalized_features_epoch=7, throttle_time_ms=3)
    answer = versions().answer(cluster)
    assert (answer.finalized_features_epoch, answer.throttle_time_ms) == (7, 3)
    assert {one.api_key for one in answer.api_keys} == versions().offered.keys()
