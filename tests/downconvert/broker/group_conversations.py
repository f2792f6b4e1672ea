"""Requests of members of groups, and about groups, with a broker's responses.

Not here: the brokers that are compared (test_group_differential.py)."""

import re
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from downconvert.protocol.consumer_protocol import Subscription, write_subscription
from downconvert.protocol.schemas import ApiKey, Message

from . import talking
from .asking import parsed

PATIENCE: Final = 120.0  # seconds
JOIN_NEWEST: Final = 9
MEMBER_ID: Final = re.compile(r"(test|one)-[0-9a-f-]{36}")


class Talk:
    """One connection, which knows what was asked last."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._connection = talking.Talk(address, seconds=PATIENCE)
        self._asked: tuple[ApiKey, int] | None = None

    def send(self, api: ApiKey, version: int, **fields: Any) -> None:
        self._connection.send(api, version, Message(**fields))
        self._asked = api, version

    def hear(self) -> Message:
        assert self._asked is not None
        return parsed(*self._asked, self._connection.receive())

    def ask(self, api: ApiKey, version: int, **fields: Any) -> Message:
        self.send(api, version, **fields)
        return self.hear()

    def close(self) -> None:
        self._connection.socket.close()


class Told:
    """The responses of one of the two brokers."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address
        self._names: dict[str, str] = {}
        self._talks: list[Talk] = []
        self.responses: list[Any] = []

    def talk(self) -> Talk:
        self._talks.append(Talk(self._address))
        return self._talks[-1]

    def note(self, what: str, response: Message) -> Message:
        """Keeps a response; members' ids are called by the order in which they came up."""
        member = response.__dict__.get("member_id")
        if member:
            self._names.setdefault(member, f"<{len(self._names)}>")
        self.responses.append((what, self._plain(response)))
        return response

    def _plain(self, value: Any) -> Any:
        if isinstance(value, Message):
            skipped = ("throttle_time_ms", "error_message", "topic_id", "authorized_operations")
            fields = vars(value).items()
            return {name: self._plain(one) for name, one in fields if name not in skipped}
        if isinstance(value, str):
            unheard = "<?>" if MEMBER_ID.fullmatch(value) else value
            return self._names.get(value, unheard)
        if isinstance(value, memoryview):
            return bytes(value)
        if isinstance(value, list):
            plain = [self._plain(one) for one in value]
            return sorted(plain, key=repr)
        return value

    def close(self) -> None:
        for talk in self._talks:
            talk.close()


def join_fields(group: str, **fields: Any) -> dict[str, Any]:
    protocols = [Message(name="range", metadata=b"r"), Message(name="other", metadata=b"o")]
    start: dict[str, Any] = {
        "group_id": group,
        "session_timeout_ms": 100_000,  # nobody is to be taken for dead
        "rebalance_timeout_ms": 100_000,
        "protocol_type": "consumer",
        "protocols": protocols,
    }
    return start | fields


def enter(told: Told, talk: Talk, version: int, **fields: Any) -> Message:
    """Joins as a client does, with the id that it is given first."""
    joined = told.note("join", talk.ask(ApiKey.JoinGroup, version, **fields))
    if joined.error_code == 79:
        fields["member_id"] = joined.member_id
        joined = told.note("join", talk.ask(ApiKey.JoinGroup, version, **fields))
    return joined


def claim(group: str, joined: Message, **fields: Any) -> dict[str, Any]:
    start = {
        "group_id": group,
        "generation_id": joined.generation_id,
        "generation_id_or_member_epoch": joined.generation_id,
        "member_id": joined.member_id,
        "protocol_type": "consumer",
        "protocol_name": joined.protocol_name,
    }
    return start | fields


def committing(**partition: Any) -> list[Message]:
    fields = {"partition_index": 0, "committed_offset": 3, "committed_metadata": "m"} | partition
    return [Message(name="events", partitions=[Message(**fields)])]


def until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < end, "it has not come to this"
        time.sleep(0.01)


def hears_of_rebalance(talk: Talk, me: dict[str, Any]) -> bool:
    return bool(talk.ask(ApiKey.Heartbeat, 3, **me).error_code == 27)


# --- what is said


def nobody_there(told: Told) -> None:
    talk = told.talk()
    for group in ("", "unknown"):
        for api, newest in (
            (ApiKey.Heartbeat, 4),
            (ApiKey.SyncGroup, 5),
            (ApiKey.LeaveGroup, 5),
            (ApiKey.OffsetCommit, 8),
            (ApiKey.DescribeGroups, 5),
            (ApiKey.DeleteGroups, 2),
            (ApiKey.OffsetDelete, 0),
        ):
            for version in range(newest + 1):
                fields: dict[str, Any] = {
                    "group_id": group,
                    "member_id": "me",
                    "generation_id": 5,
                    "generation_id_or_member_epoch": 5,
                    "protocol_type": "consumer",
                    "protocol_name": "range",
                    "topics": committing(),
                    "groups": [group],
                    "groups_names": [group],
                    "members": [Message(member_id="me")],
                }
                if api is ApiKey.OffsetCommit and version == 0:
                    continue  # goes to ZooKeeper, which is no more
                told.note(f"{api.name} v{version} {group}", talk.ask(api, version, **fields))


def unwelcome(told: Told) -> None:
    talk = told.talk()
    for version in range(JOIN_NEWEST + 1):
        bad: list[dict[str, Any]] = [
            {"session_timeout_ms": 10},
            {"session_timeout_ms": 2_000_000_000},
            {"protocols": []},
            {"protocol_type": ""},
            {"member_id": "who"},
        ]
        for fields in bad:
            asked = join_fields("unwelcome", **fields)
            told.note(f"v{version} {fields}", talk.ask(ApiKey.JoinGroup, version, **asked))
        asked = join_fields("")
        told.note(f"v{version} no group", talk.ask(ApiKey.JoinGroup, version, **asked))


def alone(told: Told) -> None:
    talk = told.talk()
    for version in range(JOIN_NEWEST + 1):
        group = f"alone-{version}"
        joined = enter(told, talk, version, **join_fields(group))
        me = claim(group, joined)
        topics = committing()
        told.note("early beat", talk.ask(ApiKey.Heartbeat, 3, **me))
        told.note("early commit", talk.ask(ApiKey.OffsetCommit, 6, **me, topics=topics))
        told.note(
            "same join",
            talk.ask(ApiKey.JoinGroup, version, **join_fields(group, member_id=joined.member_id)),
        )
        wrong = me | {"protocol_name": "other"}
        told.note("other protocol", talk.ask(ApiKey.SyncGroup, 5, **wrong))
        wrong = me | {"protocol_type": "connect"}
        told.note("other type", talk.ask(ApiKey.SyncGroup, 5, **wrong))
        wrong = me | {"protocol_name": None}
        told.note("no protocol", talk.ask(ApiKey.SyncGroup, 5, **wrong))
        wrong = me | {"generation_id": 7}
        told.note("other generation", talk.ask(ApiKey.SyncGroup, 4, **wrong))
        given = [Message(member_id=joined.member_id, assignment=b"all")]
        told.note("sync", talk.ask(ApiKey.SyncGroup, 5, **me, assignments=given))
        told.note("again", talk.ask(ApiKey.SyncGroup, 1, **me))
        told.note("beat", talk.ask(ApiKey.Heartbeat, 3, **me))
        told.note("old beat", talk.ask(ApiKey.Heartbeat, 3, **wrong))
        told.note("nobody's beat", talk.ask(ApiKey.Heartbeat, 3, **(me | {"member_id": "x"})))
        told.note("commit", talk.ask(ApiKey.OffsetCommit, 6, **me, topics=topics))
        late = me | {"generation_id_or_member_epoch": 0}
        told.note("old commit", talk.ask(ApiKey.OffsetCommit, 6, **late, topics=topics))
        told.note("other commit", talk.ask(ApiKey.OffsetCommit, 6, group_id=group, topics=topics))
        long = committing(committed_metadata="x" * 4097)
        told.note("long commit", talk.ask(ApiKey.OffsetCommit, 6, **me, topics=long))
        unknown = committing(partition_index=5)
        told.note("unknown", talk.ask(ApiKey.OffsetCommit, 6, **me, topics=unknown))
        told.note("described", talk.ask(ApiKey.DescribeGroups, 5, groups=[group]))
        told.note("listed", talk.ask(ApiKey.ListGroups, 4, states_filter=["stable"]))
        told.note("not deleted", talk.ask(ApiKey.DeleteGroups, 2, groups_names=[group]))
        other = join_fields(group, protocol_type="connect")
        told.note("other type", talk.ask(ApiKey.JoinGroup, version, **other))
        other = join_fields(group, protocols=[Message(name="x", metadata=b"")])
        told.note("other protocols", talk.ask(ApiKey.JoinGroup, version, **other))
        leaving = {"member_id": joined.member_id, "members": [Message(member_id=joined.member_id)]}
        told.note("leave", talk.ask(ApiKey.LeaveGroup, version % 6, group_id=group, **leaving))
        told.note("left", talk.ask(ApiKey.LeaveGroup, version % 6, group_id=group, **leaving))
        told.note("described", talk.ask(ApiKey.DescribeGroups, 5, groups=[group]))
        told.note("commit", talk.ask(ApiKey.OffsetCommit, 6, group_id=group, topics=topics))
        asked = [Message(name="events", partition_indexes=[0, 1, 9])]
        for fetch in range(10):
            groups = [Message(group_id=group, topics=asked), Message(group_id="", topics=None)]
            said = talk.ask(
                ApiKey.OffsetFetch, fetch or 1, group_id=group, topics=asked, groups=groups
            )
            told.note(f"fetch v{fetch}", said)
        told.note("deleted", talk.ask(ApiKey.DeleteGroups, 2, groups_names=[group]))


def together(told: Told) -> None:
    for version in range(JOIN_NEWEST + 1):
        group = f"together-{version}"
        first, second = told.talk(), told.talk()
        leader = enter(told, first, version, **join_fields(group))
        me = claim(group, leader)
        given = [Message(member_id=leader.member_id, assignment=b"1")]
        told.note("sync", first.ask(ApiKey.SyncGroup, 5, **me, assignments=given))
        fields = join_fields(group, protocols=[Message(name="other", metadata=b"2")])
        if version >= 4:
            pending = told.note("join", second.ask(ApiKey.JoinGroup, version, **fields))
            fields["member_id"] = pending.member_id
        second.send(ApiKey.JoinGroup, version, **fields)
        until(partial(hears_of_rebalance, first, me))
        told.note("commit", first.ask(ApiKey.OffsetCommit, 6, **me, topics=committing()))
        told.note("sync", first.ask(ApiKey.SyncGroup, 5, **me))
        told.note("described", first.ask(ApiKey.DescribeGroups, 5, groups=[group]))
        again = join_fields(group, member_id=leader.member_id)
        leader = first.ask(ApiKey.JoinGroup, version, **again)
        follower = told.note("joined", second.hear())
        told.note("joined", leader)
        second.send(ApiKey.SyncGroup, 5, **claim(group, follower))
        given = [
            Message(member_id=leader.member_id, assignment=b"1"),
            Message(member_id=follower.member_id, assignment=b"2"),
        ]
        me = claim(group, leader)
        told.note("sync", first.ask(ApiKey.SyncGroup, 5, **me, assignments=given))
        told.note("synced", second.hear())
        told.note("described", first.ask(ApiKey.DescribeGroups, 5, groups=[group]))
        leaving = [Message(member_id=leader.member_id), Message(member_id="x")]
        told.note("leave", first.ask(ApiKey.LeaveGroup, 4, group_id=group, members=leaving))
        told.note("beat", second.ask(ApiKey.Heartbeat, 3, **claim(group, follower)))
        again = join_fields(group, member_id=follower.member_id)
        told.note("joined", second.ask(ApiKey.JoinGroup, version, **again))


def forgetting(told: Told) -> None:
    """OffsetDelete of a group without members, of consumers that read a topic, of others."""
    talk = told.talk()
    asked = [
        Message(name="events", partitions=[Message(partition_index=index) for index in (0, 1, 9)]),
        Message(name="none", partitions=[Message(partition_index=0)]),
    ]
    reads_others = write_subscription(Subscription(("others",)))
    reads_events = write_subscription(Subscription(("events",)))
    kinds = (
        ("", b""),
        ("consumer", reads_events),
        ("consumer", reads_others),
        ("consumer", b"?"),
        ("connect", b""),
    )
    for number, (kind, metadata) in enumerate(kinds):
        group = f"forgetting-{number}"
        commit = {"group_id": group, "topics": committing()}
        told.note("commit", talk.ask(ApiKey.OffsetCommit, 6, **commit))
        if kind:
            protocols = [Message(name="range", metadata=metadata)]
            fields = join_fields(group, protocol_type=kind, protocols=protocols)
            joined = enter(told, talk, 5, **fields)
            told.note(
                "deleted early", talk.ask(ApiKey.OffsetDelete, 0, group_id=group, topics=asked)
            )
            me = claim(group, joined)
            given = [Message(member_id=joined.member_id, assignment=b"1")]
            told.note("sync", talk.ask(ApiKey.SyncGroup, 3, **me, assignments=given))
        told.note("deleted", talk.ask(ApiKey.OffsetDelete, 0, group_id=group, topics=asked))
        fetch = [Message(name="events", partition_indexes=[0, 1])]
        told.note("fetched", talk.ask(ApiKey.OffsetFetch, 5, group_id=group, topics=fetch))


def static(told: Told) -> None:
    for version in range(5, JOIN_NEWEST + 1):
        group = f"static-{version}"
        first, second = told.talk(), told.talk()
        fields = join_fields(group, group_instance_id="one")
        old = enter(told, first, version, **fields)
        me = claim(group, old, group_instance_id="one")
        given = [Message(member_id=old.member_id, assignment=b"1")]
        told.note("sync", first.ask(ApiKey.SyncGroup, 5, **me, assignments=given))
        new = enter(told, second, version, **fields)
        told.note("fenced", first.ask(ApiKey.Heartbeat, 4, **me))
        told.note("fenced", first.ask(ApiKey.OffsetCommit, 7, **me, topics=committing()))
        told.note("fenced", first.ask(ApiKey.SyncGroup, 5, **me))
        told.note("fenced", first.ask(ApiKey.JoinGroup, version, **fields, member_id=old.member_id))
        back = claim(group, new, group_instance_id="one")
        told.note("sync", second.ask(ApiKey.SyncGroup, 5, **back))
        unknown = back | {"group_instance_id": "two"}
        told.note("unknown", second.ask(ApiKey.Heartbeat, 4, **unknown))
        told.note("described", second.ask(ApiKey.DescribeGroups, 5, groups=[group]))
        leaving = [Message(member_id="", group_instance_id=name) for name in ("one", "two")]
        told.note("leave", second.ask(ApiKey.LeaveGroup, 4, group_id=group, members=leaving))


SAID: Final = [nobody_there, unwelcome, alone, together, forgetting, static]
