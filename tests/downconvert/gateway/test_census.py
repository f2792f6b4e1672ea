from downconvert.broker.series import NAME_MAX, OTHERS
from downconvert.gateway.census import KEYS_MAX, ClientCensus, ClientKey


def client(client_id: str = "app", api: str = "Fetch", version: int = 0) -> ClientKey:
    return ClientKey(client_id, "lib 1.0", "10.0.0.7", api, version)


def test_requests_are_counted_by_client_and_version() -> None:
    seen = ClientCensus()
    seen.see(client(), 1.0, translated=True)
    seen.converted(seen.see(client(), 2.0, translated=True), records=3, sent=100)
    seen.see(client(version=12), 3.0, translated=False)
    old, new = seen.rows()
    assert (old["version"], old["requests"], old["translated"]) == (0, 2, 2)
    assert (old["records_converted"], old["bytes_converted"], old["last_seen"]) == (3, 100, 2.0)
    assert (new["version"], new["requests"], new["translated"]) == (12, 1, 0)


def test_clients_of_any_number_of_names_take_bounded_memory() -> None:
    seen = ClientCensus()
    for number in range(KEYS_MAX + 100):
        seen.see(client(f"client-{number}"), 0.0, translated=False)
    rows = seen.rows()
    assert len(rows) == KEYS_MAX + 1
    (others,) = (row for row in rows if row["client_id"] == OTHERS)
    assert others["requests"] == 100


def test_names_of_any_length_are_cut() -> None:
    seen = ClientCensus()
    assert len(seen.see(client("x" * 30_000), 0.0, translated=False).client_id) == NAME_MAX
