"""Since when no old version was seen, by topic and principal."""

import random

from downconvert.gateway.session.last_old import LastOld
from downconvert.protocol.schemas import Message
from downconvert.serving.series import OTHERS
from tests.downconvert.gateway.talk import fetch_body, message_set, produce_body


def test_requests_of_each_form_name_their_topics() -> None:
    seen = LastOld()
    bodies = [
        fetch_body(0),
        produce_body(message_set(0, b"a")),
        Message(topics=["u", "v"]),  # DeleteTopics
        Message(topics=[Message(name="w")]),
        Message(topics=None),
        Message(group_id="g"),
    ]
    for now, body in enumerate(bodies):
        seen.add_request(body, "ann", float(now))
    assert sorted(seen.rows()) == [
        ("", "ann", 5.0),
        ("t", "ann", 1.0),
        ("u", "ann", 2.0),
        ("v", "ann", 2.0),
        ("w", "ann", 3.0),
    ]


def test_no_date_is_lost_or_becomes_earlier_however_many_rows_there_are() -> None:
    seed = 20261125
    chance, rows_max = random.Random(seed), 20
    seen, latest = LastOld(rows_max), dict[tuple[str, str], float]()
    for _ in range(2_000):
        key = f"t{chance.randrange(40)}", f"p{chance.randrange(3)}"
        seconds = chance.random()
        seen.join([(*key, seconds)])
        latest[key] = max(seconds, latest.get(key, 0.0))
    found = {(topic, principal): seconds for topic, principal, seconds in seen.rows()}
    assert len(found) == rows_max + 1
    rest = found.pop((OTHERS, OTHERS))
    assert all(latest[key] == seconds for key, seconds in found.items()), seed
    assert rest == max(seconds for key, seconds in latest.items() if key not in found), seed


def test_sightings_of_two_gateways_are_merged() -> None:
    one, other = LastOld(), LastOld()
    one.join([("a", "p", 3.0), ("b", "p", 1.0)])
    other.join([("a", "p", 2.0), ("c", "p", 5.0)])
    one.join(other.rows())
    assert sorted(one.rows()) == [("a", "p", 3.0), ("b", "p", 1.0), ("c", "p", 5.0)]
