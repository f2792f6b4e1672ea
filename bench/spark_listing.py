"""How long does the driver plan, with many partitions and several copies of each?

For an object store, a server has the copies of three brokers, and delays each response. Some copies
lag. Everything is planned, and the server counts requests. On this machine, one topic of the same
directories is planned.

    python -m bench.spark_listing
    python -m bench.spark_listing --partitions 1000 --local 300     a smaller one"""

import json
import multiprocessing
import re
import tempfile
import threading
import time
import warnings
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

import click
import pytest

from downconvert.spark.options.options import Options
from downconvert.spark.options.schemas import schema_of
from downconvert.spark.read.reader import SegmentReader, Task
from downconvert.storage.names import Kind, file_name
from tests import object_store
from tests.downconvert.storage.logs import batch

BROKERS: Final = 3
OF_TOPIC: Final = 30  # partitions of a topic
LAGS: Final = 10  # every tenth copy of the last broker lags
PAGE: Final = 1000  # keys in a response to a listing
RESPONSE_SECONDS: Final = 0.02
STORED_MAX: Final = 120.0  # seconds, for a store with 10,000 partitions
LOCAL_MAX: Final = 1.0  # seconds, for one topic among 3,000 partitions
METADATA: Final = b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ"
EPOCHS: Final = b"0\n1\n0 0\n"


def files_of(partitions: int) -> dict[str, bytes]:
    """The brokers' files, by their paths."""
    first, second = batch(0, 1, 2, leader_epoch=0), batch(3, 4, leader_epoch=0)
    found: dict[str, bytes] = {}
    for broker in range(BROKERS):
        for number in range(partitions):
            topic, partition = divmod(number, OF_TOPIC)
            folder = f"b{broker}/t{topic:04}-{partition}"
            lags = broker == BROKERS - 1 and number % LAGS == 0
            found[f"{folder}/{file_name(0, Kind.LOG)}"] = first if lags else first + second
            found[f"{folder}/{file_name(0, Kind.OFFSET_INDEX)}"] = b""
            found[f"{folder}/{file_name(0, Kind.TIME_INDEX)}"] = b""
            found[f"{folder}/leader-epoch-checkpoint"] = EPOCHS
            found[f"{folder}/partition.metadata"] = METADATA
    return found


def serve(partitions: int, control: Connection) -> None:
    """Serves the files as the bucket `bucket`. Sends its port, and then the number of requests for
    each message from the parent."""
    files = files_of(partitions)
    keys = sorted(files)
    lock, count = threading.Lock(), 0

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1

        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            nonlocal count
            with lock:
                count += 1
            time.sleep(RESPONSE_SECONDS)
            parts = urlsplit(self.path)
            key = unquote(parts.path).removeprefix("/bucket").lstrip("/")
            if key:
                self._object(key)
            else:
                self._listing(parse_qs(parts.query))

        def _object(self, key: str) -> None:
            data = files.get(key)
            if data is None:
                self._answer(404, b"", {})
                return
            wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
            if wanted is None:
                self._answer(200, data, {})
                return
            part = data[int(wanted[1]) : int(wanted[2]) + 1]
            end = int(wanted[1]) + len(part) - 1
            self._answer(206, part, {"Content-Range": f"bytes {wanted[1]}-{end}/{len(data)}"})

        def _listing(self, query: dict[str, list[str]]) -> None:
            prefix, after = query.get("prefix", [""])[0], query.get("continuation-token", [""])[0]
            delimiter = query.get("delimiter", [""])[0]
            size, last = int(query.get("max-keys", ["1000"])[0]), ""
            items: list[str] = []
            folders: set[str] = set()
            begin = max(bisect_left(keys, prefix), bisect_right(keys, after))
            for key in islice(keys, begin, None):
                if not key.startswith(prefix):
                    last = ""
                    break
                if len(items) == min(size, PAGE):
                    break
                rest, last = key[len(prefix) :], key
                if delimiter and delimiter in rest:
                    folder = prefix + rest.partition(delimiter)[0] + delimiter
                    if folder not in folders:
                        folders.add(folder)
                        items.append(f"<CommonPrefixes><Prefix>{folder}</Prefix></CommonPrefixes>")
                    continue
                items.append(
                    f"<Contents><Key>{escape(key)}</Key><Size>{len(files[key])}</Size>"
                    "<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
                )
            else:
                last = ""
            more = f"<NextContinuationToken>{last}</NextContinuationToken>" if last else ""
            is_cut = "true" if last else "false"
            body = (
                '<?xml version="1.0" encoding="UTF-8"?><ListBucketResult>'
                f"<Name>bucket</Name><IsTruncated>{is_cut}</IsTruncated>{more}"
                f"{''.join(items)}</ListBucketResult>"
            )
            self._answer(200, body.encode(), {"Content-Type": "application/xml"})

        def _answer(self, status: int, data: bytes, headers: dict[str, str]) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Logs nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    control.send(server.server_port)
    while control.recv():
        control.send(count)


@contextmanager
def running(partitions: int) -> Iterator[tuple[str, Connection]]:
    """A server in a process of its own: its endpoint, and a connection for its counts of
    requests."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.Process(target=serve, args=(partitions, theirs), daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{ours.recv()}", ours
    finally:
        process.terminate()
        process.join()


def planned(paths: list[str], topics: str = "") -> tuple[float, float, int]:
    """The seconds and the CPU seconds of a plan, and its splits."""
    given = {"paths": json.dumps(paths)} | ({"topics": topics} if topics else {})
    options = Options.parse(given, streaming=False)
    started, spent = time.monotonic(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they say that copies lag
        tasks = SegmentReader(options, schema_of(options)).partitions()
    seconds, cpu = time.monotonic() - started, time.process_time() - spent
    return seconds, cpu, sum(len(task.splits) for task in tasks if isinstance(task, Task))


def stored(partitions: int) -> float:
    """Plans everything in the store; returns the seconds."""
    with running(partitions) as (endpoint, control), pytest.MonkeyPatch.context() as patch:
        for name, value in object_store.ObjectStore(endpoint, Path(), 0).environment.items():
            patch.setenv(name, value)
        paths = [f"s3://bucket/b{broker}" for broker in range(BROKERS)]
        for topics in ("t0000", ""):
            control.send(True)
            before = control.recv()
            seconds, cpu, splits = planned(paths, topics)
            control.send(True)
            asked = control.recv() - before
            what = f"{BROKERS} x {partitions:,} partitions, {topics or 'all'}"
            expected = min(partitions, OF_TOPIC) if topics else partitions
            assert splits == expected, f"{splits} splits of {expected} partitions"
            click.echo(
                f"store, {what}: {seconds:.1f} s ({cpu:.1f} s of CPU), {asked:,} requests, "
                f"{asked / BROKERS / expected:.2f} for each copy"
            )
    return seconds


def local(partitions: int) -> float:
    """Plans one topic of directories; returns the seconds."""
    with tempfile.TemporaryDirectory() as place:
        for name, data in files_of(partitions).items():
            path = Path(place) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        paths = [f"{place}/b{broker}" for broker in range(BROKERS)]
        took, cpu, _ = min(planned(paths, "t0000") for _ in range(3))
    what = f"{BROKERS} x {partitions:,} partitions, one topic"
    click.echo(f"directories, {what}: {took:.2f} s ({cpu:.2f} s of CPU)")
    return took


@click.command(help=(__doc__ or "").partition("\n\n    ")[0])
@click.option("--partitions", default=10_000, show_default=True, help="Of each broker, in a store.")
@click.option("--local", "here", default=3_000, show_default=True, help="The same, in directories.")
def main(partitions: int, here: int) -> None:
    took_local, took_stored = local(here), stored(partitions)
    if took_local > LOCAL_MAX or took_stored > STORED_MAX:
        raise SystemExit(f"more than {LOCAL_MAX:.0f} s or {STORED_MAX:.0f} s")


if __name__ == "__main__":
    main()
