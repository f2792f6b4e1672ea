"""The groups of a broker: requests of members and of other clients."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from downconvert.broker import BadRequestError, Broker, BrokerConfig, ErrorCode
from downconvert.protocol.schemas import ApiKey, Field, Message, schema
from downconvert.storage import LogDir
from tests.downconvert.broker.asking import ask, begin, frame, response_of, someone
from tests.downconvert.broker.offset_logs import commit
from tests.downconvert.broker.transacting import Producing
from tests.downconvert.broker.writable import writable_broker

ASKED = [
    ApiKey.FindCoordinator,
    ApiKey.JoinGroup,
    ApiKey.SyncGroup,
    ApiKey.Heartbeat,
    ApiKey.LeaveGroup,
    ApiKey.OffsetCommit,
    ApiKey.OffsetFetch,
    ApiKey.DescribeGroups,
    ApiKey.ListGroups,
    ApiKey.DeleteGroups,
    ApiKey.OffsetDelete,
]
NAMES = st.sampled_from(["", "g", "t", "range", "consumer", "\0", "ü" * 16_000, "\U0001f600" * 100])
NUMBERS = st.sampled_from([-(2**31), -1, 0, 1, 10_000, 2**31 - 1])


def values(field: Field, version: int) -> st.SearchStrategy[Any]:
    one: st.SearchStrategy[Any]
    match field.type:
        case "struct":
            one = bodies(field.fields, version)
        case "string":
            one = NAMES
        case "bytes":
            one = st.sampled_from([b"", b"x", bytes(70_000)])
        case "bool":
            one = st.booleans()
        case "uuid":
            one = st.just(bytes(16))
        case "int8":
            one = st.integers(-1, 3)
        case _:
            one = NUMBERS
    found = st.lists(one, max_size=3) if field.is_array else one
    return st.none() | found if version in field.nullable else found


def bodies(fields: tuple[Field, ...], version: int) -> st.SearchStrategy[Message]:
    here = {field.name: values(field, version) for field in fields if version in field.versions}
    return st.fixed_dictionaries(here).map(lambda found: Message(**found))


@st.composite
def requests(draw: st.DrawFn) -> tuple[ApiKey, int, Message]:
    api = draw(st.sampled_from(ASKED))
    asked = schema(f"{api.name}Request")
    version = draw(st.integers(0, asked.newest))
    return api, version, draw(bodies(asked.fields, version))


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(asked=st.lists(requests(), max_size=12))
def test_whatever_is_asked_is_answered_at_once_or_in_time(
    tmp_path: Path, asked: list[tuple[ApiKey, int, Message]]
) -> None:
    config = BrokerConfig(group_min_session_timeout_ms=0, group_initial_rebalance_delay_ms=10)
    broker = Broker(LogDir.open(tmp_path), config)
    exchanges = []
    for second, (api, version, body) in enumerate(asked):
        data = memoryview(frame(api, version, body))
        exchanges.append(broker.handle(someone(), data, float(second)))
    now = float(len(asked))
    while (due := broker.tick(now)) is not None and due < 1e7:
        now = max(now, due)
    assert all(exchange.is_done for exchange in exchanges)
    for exchange in exchanges:
        response_of(exchange)  # decodes it


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    return Broker(LogDir.open(tmp_path), BrokerConfig(groups_max=1))


def join(broker: Broker, group_id: str, **fields: Any) -> Message:
    body = Message(
        group_id=group_id,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[Message(name="range", metadata=b"")],
    )
    body.__dict__.update(fields)
    return ask(broker, ApiKey.JoinGroup, 9, body)


def test_there_are_only_so_many_groups(broker: Broker) -> None:
    assert join(broker, "one").error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert join(broker, "two").error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    broker.tick(11.0)  # nobody has come with the id that was handed out
    assert ask(broker, ApiKey.ListGroups, 5, Message()).groups == []
    assert join(broker, "two").error_code == ErrorCode.MEMBER_ID_REQUIRED


@pytest.mark.parametrize(
    "fields",
    [
        {"protocols": [Message(name=str(number)) for number in range(101)]},
        {"group_instance_id": "x" * 32_731},
    ],
    ids=["protocols", "instance"],
)
def test_a_member_has_limits(broker: Broker, fields: dict[str, Any]) -> None:
    assert join(broker, "g", **fields).error_code == ErrorCode.INVALID_REQUEST


def test_a_protocol_that_is_offered_twice_counts_once(broker: Broker) -> None:
    twice = [Message(name="range", metadata=b"1"), Message(name="range", metadata=b"2")]
    first = join(broker, "g", protocols=twice)
    waiting = begin(
        broker,
        ApiKey.JoinGroup,
        3,
        Message(
            group_id="g",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            protocol_type="consumer",
            protocols=twice,
        ),
    )
    broker.tick(20.0)  # the first has got an id only, and does not come
    joined = response_of(waiting)
    assert first.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert [bytes(one.metadata) for one in joined.members] == [b"1"]


@pytest.mark.parametrize(
    ("milliseconds", "code"),
    [
        (5_999, ErrorCode.INVALID_SESSION_TIMEOUT),
        (6_000, ErrorCode.MEMBER_ID_REQUIRED),
        (20_000, ErrorCode.MEMBER_ID_REQUIRED),
        (20_001, ErrorCode.INVALID_SESSION_TIMEOUT),
    ],
)
def test_sessions_are_neither_shorter_nor_longer_than_the_broker_says(
    tmp_path: Path, milliseconds: int, code: ErrorCode
) -> None:
    config = BrokerConfig(group_min_session_timeout_ms=6_000, group_max_session_timeout_ms=20_000)
    broker = Broker(LogDir.open(tmp_path), config)
    assert join(broker, "g", session_timeout_ms=milliseconds).error_code == code


def test_the_id_of_a_group_has_so_many_bytes(broker: Broker) -> None:
    with pytest.raises(BadRequestError, match="group_id before 3 has a length of 32768"):
        join(broker, "ü" * 0x4000)
    assert join(broker, "x" * 0x7FFF).error_code == ErrorCode.MEMBER_ID_REQUIRED


def committed(broker: Broker, group: str, generation: int) -> int:
    partition = Message(partition_index=0, committed_offset=1, committed_metadata="")
    topics = [Message(name="t", partitions=[partition])]
    body = Message(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id="m" if generation >= 0 else "",
        topics=topics,
    )
    (topic,) = ask(broker, ApiKey.OffsetCommit, 8, body, now=1000.0).topics
    code: int = topic.partitions[0].error_code
    return code


def test_a_commit_of_a_member_makes_no_group_and_one_of_nobody_does(tmp_path: Path) -> None:
    with writable_broker(tmp_path, "t", groups_max=1) as broker:
        assert committed(broker, "g", 3) == ErrorCode.ILLEGAL_GENERATION
        assert broker.groups.manager.ids() == []
        assert committed(broker, "g", -1) == ErrorCode.NONE
        assert committed(broker, "h", -1) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert broker.groups.manager.ids() == ["g"]


def test_the_group_without_a_name_has_offsets_and_none_of_a_transaction(tmp_path: Path) -> None:
    with writable_broker(tmp_path, "t") as broker:
        assert commit(broker, 3, group="") == ErrorCode.NONE
        producer = Producing(broker)
        producer.begin()
        assert producer.commit_offset(4, group="") is ErrorCode.INVALID_GROUP_ID
