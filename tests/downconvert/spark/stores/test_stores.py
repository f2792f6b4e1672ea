"""Logs in an object store are read as from a mounted directory: with a store that is a
program of its own (tests/object_store.py)."""

import shutil
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest

from downconvert.spark.stores import file_systems, stores
from downconvert.spark.stores.store_errors import ForbiddenError, StoreError, ThrottledError
from downconvert.storage.names import Kind, file_name
from records import Codec
from tests.downconvert.spark.reading import rows, splits
from tests.downconvert.spark.refusing_store import refusing
from tests.downconvert.storage.logs import batch, indexed_segment, segment
from tests.object_store import ObjectStore

pytestmark = pytest.mark.others

URI: Final = "s3a://bucket"
COUNT: Final = 400  # batches of a segment


@pytest.fixture(scope="module")
def logs(store: tuple[ObjectStore, Path]) -> Path:
    """A broker's directory: a topic with indexes, and one of another format without."""
    directory = store[1] / "broker"
    directory.mkdir()
    (directory / "meta.properties").write_text("version=0\nbroker.id=1\ncluster.id=one\n")
    (directory / "log-start-offset-checkpoint").write_text("0\n1\norders 0 3\n")
    (directory / "replication-offset-checkpoint").write_text(f"0\n1\norders 0 {COUNT + 7}\n")
    batches = [batch(offset, size=1000) for offset in range(2 * COUNT)]
    indexed_segment(directory / "orders-0", 0, *batches[:COUNT])
    indexed_segment(directory / "orders-0", COUNT, *batches[COUNT:])
    old = [batch(0, magic=0), batch(1, 2, codec=Codec.GZIP, magic=1), batch(3, codec=Codec.ZSTD)]
    segment(directory / "old-3", 0, *old)
    return directory


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"maxPartitionBytes": 100_000},
        {"level": "batch", "maxPartitionBytes": 150_000},
        {"startingOffsets": '{"orders":{"0":250}}', "endingOffsets": '{"orders":{"0":550}}'},
        {"topics": "orders", "stopAtHighWatermark": "true"},
        {"startingTimestamp": 3500, "endingTimestamp": 6000},
        {"isolation": "read_committed", "includeHeaders": "true"},
        {"clusterId": "one", "partitions": "3"},
    ],
)
def test_a_stored_log_is_read_like_a_mounted_one(logs: Path, options: dict[str, Any]) -> None:
    def found(path: Path | str) -> list[dict[str, Any]]:
        return [
            {name: value for name, value in row.items() if name != "segment"}
            for row in rows(path, **options)
        ]

    wanted = found(logs)
    assert wanted
    assert found(f"{URI}/broker") == wanted


def test_patterns_and_copies(logs: Path) -> None:
    shutil.copytree(logs, logs.parent / "copies" / "b1")
    shutil.copytree(logs / "orders-0", logs.parent / "copies" / "b2" / "orders-0")
    (logs.parent / "copies" / "b2" / "orders-0" / file_name(COUNT, Kind.LOG)).unlink()
    assert rows(f"{URI}/copies/b*") == rows(f"{URI}/copies/b1")
    assert rows(f"{URI}/copies/*/orders-0") == rows(f"{URI}/copies/b1", topics="orders")
    assert rows(f"{URI}/copies/{{b1,b3}}") == rows(f"{URI}/copies/[^ac]1")
    with pytest.raises(FileNotFoundError, match="no object"):
        rows(f"{URI}/copies/c*")


@pytest.mark.usefixtures("logs")
def test_a_plan_asks_at_most_three_times_for_a_segment(store: tuple[ObjectStore, Path]) -> None:
    before = len(store[0].requests())
    found = splits(f"{URI}/broker", maxPartitionBytes=100_000, topics="orders")
    assert len(found) > 6
    asked = store[0].requests()[before:]
    assert sum(kind == "ListObjectsV2" for kind, _ in asked) == 1
    of_segments = Counter(
        name.rpartition(".")[0] for kind, name in asked if kind != "ListObjectsV2"
    )
    of_orders = {name: count for name, count in of_segments.items() if "orders-0/" in name}
    assert len(of_orders) == 2
    assert max(of_orders.values()) <= 3


@pytest.mark.parametrize("position", [1, 7])
def test_an_index_that_leads_nowhere_loses_and_doubles_nothing(logs: Path, position: int) -> None:
    directory = logs.parent / f"damaged-{position}" / "orders-0"
    shutil.copytree(logs / "orders-0", directory)
    index = directory / file_name(0, Kind.OFFSET_INDEX)
    data = bytearray(index.read_bytes())
    for at in range(0, len(data), 8):  # the first byte of a batch's end, say
        if at // 8 % 3:
            data[at + 7] = min(255, data[at + 7] + position)
    index.write_bytes(data)
    found = rows(f"{URI}/{directory.parent.name}", maxPartitionBytes=30_000)
    assert [row["offset"] for row in found] == list(range(2 * COUNT))


@pytest.mark.usefixtures("logs")
def test_errors_say_which_object_and_why(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FileNotFoundError, match="no such object"):
        rows(f"{URI}/nowhere")
    with pytest.raises(FileNotFoundError, match="no such object"):
        rows("s3://no-such-bucket/logs")
    with pytest.raises(ValueError, match="credentials do not belong"):
        rows("s3://user:secret@bucket/logs")
    file_systems.file_system.cache_clear()
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another")
    with pytest.raises(ForbiddenError, match="s3://bucket/broker: forbidden"):
        rows(f"{URI}/broker")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    with pytest.raises(StoreError, match=r"s3://bucket/broker: .*[Cc]onnect"):
        rows(f"{URI}/broker")
    file_systems.file_system.cache_clear()


def test_a_store_that_throttles_is_asked_again_and_then_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    body = b"<Error><Code>SlowDown</Code><Message>Reduce your request rate</Message></Error>"
    head = b"HTTP/1.1 503 Slow Down\r\nContent-Type: application/xml\r\nConnection: close\r\n"
    response = head + b"Content-Length: %d\r\n\r\n" % len(body) + body
    with refusing(response) as (address, requests):
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{address}")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
        monkeypatch.setenv("AWS_MAX_ATTEMPTS", "2")
        file_systems.file_system.cache_clear()
        with pytest.raises(ThrottledError, match="throttling"):
            stores.listed(stores.pinned("s3://bucket/logs"))
    file_systems.file_system.cache_clear()
    assert len(requests) >= 2


@pytest.mark.usefixtures("store")
def test_an_object_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    uri = stores.below(stores.pinned(f"{URI}/written"), "a b", "c#d.log")
    stores.write(uri, b"first")
    assert stores.read(uri) == b"first"
    large = tmp_path / "large"
    large.write_bytes(bytes(range(256)) * 100_000)  # of several parts
    stores.write(uri, large)
    assert stores.read(uri) == large.read_bytes()
    assert [found.size for found in stores.listed(stores.pinned(f"{URI}/written"))] == [25_600_000]
    stores.remove([uri, uri])
    with pytest.raises(FileNotFoundError):
        stores.read(uri)
