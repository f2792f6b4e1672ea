"""Promises to clients hold where two mechanisms meet: rates, sessions, groups, settings, the end.

Not here: records that go away while they are read (test_meetings_of_records.py)."""

import socket
import time
from pathlib import Path

import pytest

from downconvert.access.rights import Access
from downconvert.protocol.schemas import ApiKey, Message
from records.units import KiB
from tests.waiting import wait_for

from .asking import LENGTH_SIZE, frame, parsed
from .guarding import guard_of
from .meeting import (
    TOPIC,
    batch,
    fetch,
    make_anew,
    offsets_in,
    partition_of,
    produce,
    produced,
    serving,
)
from .talking import Talk

OUT_OF_RANGE, UNKNOWN_MEMBER, UNSUPPORTED, ID_REQUIRED = 1, 25, 35, 79


# --- a rate, and requests one after the other


def test_pipelined_requests_above_a_rate_are_answered_late_in_order_and_all(
    tmp_path: Path,
) -> None:
    with serving(tmp_path) as (broker, server):
        broker.guard = guard_of(None, Access(producer_byte_rate=20_000.0))
        with Talk(server.address) as talk, Talk(server.address) as other:
            data = batch(size=9_000)
            made = frame(ApiKey.Produce, 8, produce(data))
            started = time.monotonic()
            talk.socket.sendall(5 * (len(made).to_bytes(LENGTH_SIZE) + made))
            found = []
            for _ in range(5):
                response = parsed(ApiKey.Produce, 8, talk.receive())
                found.append(response.responses[0].partition_responses[0].base_offset)
                if len(found) == 1:
                    assert other.is_served()  # nobody else waits
            assert found == list(range(5))
            assert time.monotonic() - started > (5 * 9_000 - 20_000 - 2 * 9_000) / 20_000


@pytest.mark.parametrize("acks", [0, 1])
def test_requests_above_a_rate_are_handled_although_their_client_has_left(
    tmp_path: Path, acks: int
) -> None:
    """As a producer does that sends all it has, and closes."""
    with serving(tmp_path) as (broker, server):
        broker.guard = guard_of(None, Access(producer_byte_rate=2_000.0))
        made = frame(ApiKey.Produce, 8, produce(batch(size=800), acks=acks))
        with Talk(server.address) as talk:
            talk.socket.sendall(4 * (len(made).to_bytes(LENGTH_SIZE) + made))
            if acks:
                talk.socket.shutdown(socket.SHUT_WR)
                assert talk.drain() > 0
        partition = broker.topics.partition(TOPIC, 0)
        assert partition is not None
        wait_for(lambda: partition.end_offset == 4)
        wait_for(lambda: not server.places)


def test_a_produce_without_a_response_counts_towards_the_rate(tmp_path: Path) -> None:
    with serving(tmp_path) as (broker, server):
        broker.guard = guard_of(None, Access(producer_byte_rate=20_000.0))
        with Talk(server.address) as talk:
            started = time.monotonic()
            talk.send(ApiKey.Produce, 8, produce(batch(size=40_000), acks=0))
            assert talk.is_served()
            assert time.monotonic() - started > 0.7
        assert broker.topics[TOPIC].partitions[0].end_offset == 1


# --- a session, and a topic that is recreated


@pytest.mark.parametrize("made", [0, 1, 2])
def test_a_session_goes_on_in_a_topic_of_the_same_name(tmp_path: Path, made: int) -> None:
    """The client is at offset 1. With as many records as before, sizes and offsets are the same."""
    with serving(tmp_path) as (_, server), Talk(server.address) as talk:
        produced(talk, batch())
        first = talk.ask(ApiKey.Fetch, 11, fetch(0, session=(0, 0)))
        id_ = first.session_id
        talk.ask(ApiKey.Fetch, 11, fetch(1, session=(id_, 1)))
        make_anew(talk)
        for _ in range(made):
            produced(talk, batch())
        response = talk.ask(ApiKey.Fetch, 11, fetch(1, session=(id_, 2), nothing=True))
        assert response.error_code == 0
        found = {one.error_code for topic in response.responses for one in topic.partitions}
        if made == 0:
            assert found == {OUT_OF_RANGE}
        elif made == 1:
            assert found <= {0}
        else:
            assert offsets_in(response) == [1]


# --- new members, and the size of a group


def join(member_id: str = "", session_ms: int = 300) -> Message:
    protocols = [Message(name="range", metadata=b"m")]
    return Message(
        group_id="g",
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=1000,
        member_id=member_id,
        group_instance_id=None,
        protocol_type="consumer",
        protocols=protocols,
    )


def test_ids_that_nobody_uses_keep_no_client_out_of_a_group(tmp_path: Path) -> None:
    """Too many expire, or are forgotten for newer ones."""
    with (
        serving(
            tmp_path,
            group_max_size=2,
            group_min_session_timeout_ms=100,
            group_initial_rebalance_delay_ms=0,
        ) as (broker, server),
        Talk(server.address) as talk,
    ):
        given = [talk.ask(ApiKey.JoinGroup, 5, join()) for _ in range(3)]
        assert [one.error_code for one in given] == [ID_REQUIRED] * 3
        late = talk.ask(ApiKey.JoinGroup, 5, join(given[0].member_id))
        assert late.error_code == UNKNOWN_MEMBER  # its id was forgotten
        wait_for(lambda: not broker.groups.manager.ids())
        late = talk.ask(ApiKey.JoinGroup, 5, join(given[2].member_id))
        assert late.error_code == UNKNOWN_MEMBER  # its id has expired
        lasting = join(session_ms=60_000)
        given = [talk.ask(ApiKey.JoinGroup, 5, lasting) for _ in range(2)]
        assert [one.error_code for one in given] == [ID_REQUIRED, ID_REQUIRED]
        joined = talk.ask(ApiKey.JoinGroup, 5, join(given[1].member_id))
        assert joined.error_code == 0


# --- the end of a server, and clients that wait


def test_a_server_stops_while_clients_wait_and_are_muted(tmp_path: Path) -> None:
    with serving(tmp_path) as (broker, server):
        broker.guard = guard_of(None, Access(producer_byte_rate=1_000.0))
        with (
            Talk(server.address) as muted,
            Talk(server.address) as fetching,
            Talk(server.address) as joining,
        ):
            produced(muted, batch(size=60_000))  # for a minute
            muted.send(ApiKey.Produce, 8, produce(batch()))
            fetching.send(ApiKey.Fetch, 11, fetch(1, wait=60_000))
            joining.send(ApiKey.JoinGroup, 3, join(session_ms=60_000))
            time.sleep(0.2)
            started = time.monotonic()
            server.stop()
            assert time.monotonic() - started < 15


# --- a conversion that is cached, and a setting that changes


def test_a_cached_conversion_is_not_sent_once_conversion_is_switched_off(tmp_path: Path) -> None:
    with serving(tmp_path) as (_, server), Talk(server.address) as talk:
        for _ in range(4):
            produced(talk, batch(count=20, size=10 * KiB))
        wanted = offsets_in(talk.ask(ApiKey.Fetch, 3, fetch(0)))
        with Talk(server.address) as other:
            assert offsets_in(other.ask(ApiKey.Fetch, 3, fetch(0))) == wanted

        def switch(value: str) -> None:
            config = Message(name="message.downconversion.enable", value=value, config_operation=0)
            asked = Message(resource_type=2, resource_name=TOPIC, configs=[config])
            response = talk.ask(ApiKey.IncrementalAlterConfigs, 0, Message(resources=[asked]))
            assert response.responses[0].error_code == 0

        switch("false")
        assert partition_of(talk.ask(ApiKey.Fetch, 3, fetch(0))).error_code == UNSUPPORTED
        assert len(partition_of(talk.ask(ApiKey.Fetch, 11, fetch(0))).records)
        switch("true")
        assert offsets_in(talk.ask(ApiKey.Fetch, 3, fetch(0))) == wanted
