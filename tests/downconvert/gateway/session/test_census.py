from random import Random

import pytest

from downconvert.gateway.session.census import KEYS_MAX, ClientCensus, ClientKey, merged
from downconvert.serving.series import NAME_MAX, OTHERS

FEW = 20


def client(client_id: str = "app", api: str = "Fetch", version: int = 0) -> ClientKey:
    return ClientKey(client_id, "lib 1.0", "10.0.0.7", api, version)


def names(seen: ClientCensus) -> set[str]:
    return {row["client_id"] for row in seen.rows()}


def test_requests_are_counted_by_client_and_version() -> None:
    seen = ClientCensus()
    seen.count(client(), 1.0, translated=True)
    seen.converted(seen.count(client(), 2.0, translated=True), records=3, sent=100)
    seen.count(client(version=12), 3.0, translated=False)
    old, new = seen.rows()
    assert (old["version"], old["requests"], old["translated"]) == (0, 2, 2)
    assert (old["records_converted"], old["bytes_converted"]) == (3, 100)
    assert (old["first_seen"], old["last_seen"], old["merged"]) == (1.0, 2.0, 1)
    assert (new["version"], new["requests"], new["translated"]) == (12, 1, 0)


def test_clients_of_any_number_of_names_take_bounded_memory() -> None:
    seen = ClientCensus()
    for number in range(KEYS_MAX + 100):
        seen.count(client(f"client-{number}"), number, translated=False)
    rows = seen.rows()
    assert len(rows) == KEYS_MAX + 1
    (others,) = (row for row in rows if row["client_id"] == OTHERS)
    assert (others["requests"], others["merged"]) == (100, 100)
    assert (others["first_seen"], others["last_seen"]) == (0, 99)  # those seen least recently


def test_a_new_client_after_very_many_is_counted() -> None:
    seen = ClientCensus(FEW)
    for number in range(50 * FEW):
        seen.count(client(f"{number}"), number, translated=number % 2 == 0)
    seen.count(client("late"), 5000.0, translated=True)
    assert "late" in names(seen)


def test_clients_that_need_no_gateway_do_not_push_out_those_that_do() -> None:
    seen = ClientCensus(FEW)
    for number in range(FEW):
        seen.count(client(f"old-{'abcdefghijklmnopqrst'[number]}"), number, translated=True)
    known = names(seen)
    for number in range(10 * FEW):
        seen.count(client(f"new-{number}"), 1000.0 + number, translated=False)
    assert names(seen) == {*known, OTHERS}


def test_clients_that_need_no_gateway_are_pushed_out_the_oldest_first() -> None:
    seen = ClientCensus(FEW)
    for number in range(FEW):
        seen.count(client(f"new-{number}"), number, translated=False)
    seen.count(client("new-0"), 100.0, translated=False)
    seen.count(client("old"), 101.0, translated=True)
    assert {"old", "new-0"} <= names(seen)
    assert "new-1" not in names(seen)


def test_pods_with_generated_names_become_one_client_with_its_dates() -> None:
    seen, random = ClientCensus(FEW), Random(3)
    seen.count(client("billing"), 0.0, translated=True)
    for day in range(40 * FEW):
        pod = "".join(random.choices("bcdfghjklm2456789", k=5))
        seen.count(
            client(f"orders-{random.randrange(16**9, 16**10):x}-{pod}"), day, translated=True
        )
    rows = {row["client_id"]: row for row in seen.rows()}
    assert {"billing", "orders-*-*"} <= rows.keys()
    pods = rows["orders-*-*"]
    assert (pods["first_seen"], pods["address"], pods["software"]) == (0, "*", "lib 1.0")
    assert sum(row["requests"] for row in rows.values()) == 1 + 40 * FEW
    assert sum(row["merged"] for row in rows.values()) == 1 + 40 * FEW


def test_clients_whose_ids_have_a_common_prefix_are_merged() -> None:
    seen = ClientCensus(FEW)
    for first in "abcdefghij":
        for second in "klmnopqrst":
            seen.count(client(f"payments-{first}{second}"), 0.0, translated=True)
    assert "payments*" in names(seen)
    assert OTHERS not in names(seen)


def test_invented_ids_leave_those_that_ask_much() -> None:
    seen, random = ClientCensus(FEW), Random(4)
    for _ in range(100):
        seen.count(client("billing"), 0.0, translated=True)
    for _ in range(100 * FEW):
        name = "".join(random.choices("abcdefghijklmnopqrstuvwxyz", k=12))
        seen.count(client(name), 1.0, translated=True)
    assert "billing" in names(seen)
    assert len(seen.rows()) <= FEW + 1


@pytest.mark.parametrize("translated", [False, True])
def test_requests_of_a_forgotten_client_are_counted(translated: bool) -> None:
    seen = ClientCensus(FEW)
    keys = [
        seen.count(client(f"{number}abc{number}"), number, translated=translated)
        for number in range(100 * FEW)
    ]
    for key in keys:
        seen.converted(key, records=1, sent=10)
        seen.recoded(key, sent=1)
    rows = seen.rows()
    assert sum(row["records_converted"] for row in rows) == len(keys)
    assert sum(row["bytes_converted"] for row in rows) == 11 * len(keys)
    assert len(rows) <= FEW + 1


def test_a_client_whose_codec_was_changed_needs_the_gateway() -> None:
    seen = ClientCensus(FEW)
    seen.recoded(seen.count(client("old"), 0.0, translated=False), 1)
    for number in range(10 * FEW):
        seen.count(client(f"new-{number}"), 1.0 + number, translated=False)
    assert "old" in names(seen)


def test_a_client_whose_codec_was_changed_has_a_row_beside_the_merged_one() -> None:
    seen = ClientCensus(FEW)
    for number in range(FEW + 1):
        seen.count(client(f"pod-{number}"), number, translated=True)
    assert names(seen) & {"pod-*"}  # they were merged
    seen.recoded(seen.count(client("pod-99"), 99.0, translated=False), 1)
    rows = {row["client_id"]: (row["requests"], row["translated"]) for row in seen.rows()}
    assert rows["pod-99"] == (1, 1)
    assert sum(requests for requests, _ in rows.values()) == FEW + 2


def test_apis_and_versions_that_nobody_has_make_no_rows() -> None:
    seen = ClientCensus(FEW)
    for number in range(10_000):
        seen.count(client(f"c{number}", f"API {number}", number % 30_000), 0.0, translated=False)
    rows = [row for row in seen.rows() if row["client_id"] == OTHERS]
    assert len(rows) < 400


@pytest.mark.parametrize("seed", range(5))
def test_no_count_is_lost_whatever_comes(seed: int) -> None:
    seen, random = ClientCensus(FEW), Random(seed)
    total = old = 0
    for number in range(3000):
        translated = random.random() < 0.3
        name = random.choice(("app", "app-{}", "x{}y", "{}", "some-long-name-{}", "*", OTHERS))
        key = client(name.format(random.randrange(1000)), version=random.randrange(3))
        seen.count(key, number, translated=translated)
        total, old = total + 1, old + translated
        assert sum(key.client_id != OTHERS for key, _ in seen) <= FEW
    assert sum(row["requests"] for row in seen.rows()) == total
    assert sum(row["translated"] for row in seen.rows()) == old


def test_censuses_of_several_processes_are_one_of_bounded_size() -> None:
    each = [ClientCensus(FEW) for _ in range(3)]
    for number, census in enumerate(each):
        for one in range(FEW):
            census.count(client(f"{number}-{one}"), one, translated=one < 3)
    rows = merged((row for census in each for row in census.rows()), FEW)
    assert len(rows) <= FEW + 1
    assert sum(row["requests"] for row in rows) == 3 * FEW
    assert sum(row["translated"] > 0 for row in rows) == 9
    shared = client("both")
    for census in each:
        census.count(shared, 1e9, translated=True)
    rows = merged((row for census in each for row in census.rows()), FEW)
    (both,) = (row for row in rows if row["client_id"] == "both")
    assert both["requests"] == 3


def test_names_of_any_length_are_cut() -> None:
    seen = ClientCensus()
    assert len(seen.count(client("x" * 30_000), 0.0, translated=False).client_id) == NAME_MAX


def test_a_request_of_a_known_client_keeps_it_among_those_seen_last() -> None:
    seen = ClientCensus(2)
    first = seen.count(client("first"), 1.0, translated=False)
    seen.count(client("second"), 2.0, translated=False)
    seen.count_again(first, 3.0, translated=False)
    seen.count(client("third"), 4.0, translated=False)
    assert names(seen) == {"first", "third", OTHERS}


def test_the_last_time_is_the_latest_though_threads_count_in_any_order() -> None:
    seen = ClientCensus()
    known = seen.count(client(), 5.0, translated=True)
    seen.count_again(known, 4.0, translated=True)
    assert [(row["first_seen"], row["last_seen"]) for row in seen.rows()] == [(5.0, 5.0)]


def test_merging_frees_a_tenth_of_the_rows_at_once() -> None:
    """Otherwise each new client would merge all of them again."""
    seen = ClientCensus(FEW)
    seen.count(client("pod-1"), 0.0, translated=True)
    seen.count(client("pod-2"), 0.0, translated=True)  # differs in a generated part only
    for number in range(FEW - 2):
        seen.count(client(f"{'abcdefghijklmnopqrst'[number] * 3}-app"), 1.0, translated=True)
    seen.count(client("zzz-app"), 2.0, translated=True)
    assert len(names(seen) - {OTHERS}) <= FEW - FEW // 10 + 1
