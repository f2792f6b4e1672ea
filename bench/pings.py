"""How long do clients wait for a small response while a server works for others?

A few connections send heartbeats in turns, first alone, then beside one of these loads:

* a hundred old consumers that wait while a producer appends gzip
* two producers of batches that are compressed again
* an old consumer of a partition of gzip, in batches of 8 MiB
* two old consumers of gzip through a gateway
* a storm of clients that connect to a gateway

Servers and loads are processes of their own. The output is the 50th and the 99th percentile, the
number of the load's requests that were served, and the server's memory before and after the load.

    python -m bench.pings [--seconds 10] [--only waiters] [--only storm]

On two processors with other load, the idle figures show the noise of the machine."""

import multiprocessing
import resource
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import cycle
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from random import Random
from statistics import quantiles
from tempfile import TemporaryDirectory
from time import monotonic, perf_counter, sleep
from typing import Final, NamedTuple, TypeAlias

import click

from downconvert.conversion.made import ENOUGH
from downconvert.protocol.schemas import ApiKey, Message
from records import Codec, Record, build
from records.units import KiB, MiB

from .servers.draining import Address, Wire, fetch, request
from .servers.gateway_clients import in_front
from .servers.processes import served, settled

TOPIC: Final = "events"
OLD: Final = 2  # Fetch
CONNECTIONS: Final = 4
PAUSE: Final = 0.002  # seconds between two pings
BETWEEN: Final = 0.2  # seconds between two appends
WAITERS: Final = 100
WAIT_MS: Final = 30_000
STORM: Final = 5_000  # connections, which all end before the next storm
AT_ONCE: Final = 500  # of them
TRIMMED: Final = 3.0  # seconds without a change, after which memory has been given back
SETTLING: Final = 1.0  # seconds until a load is steady
BATCH_MAX: Final = 32 * MiB
RECORD: Final = 1000  # bytes, half of them noise
APPENDED: Final = 240 * KiB  # bytes of records: a batch of 131 KB
HEARTBEAT: Final = request(
    ApiKey.Heartbeat,
    3,
    Message(group_id="none", generation_id=1, member_id="nobody", group_instance_id=None),
)
VERSIONS: Final = request(ApiKey.ApiVersions, 0, Message())

Counter: TypeAlias = "Synchronized[int]"
Load: TypeAlias = Callable[[Address, Counter], None]


class Scene(NamedTuple):
    """A load, and the topic that it uses. batches: their size and number. codec: the topic's
    compression.type. loads: functions, each for a process."""

    loads: list[Load]
    batches: tuple[int, int] = (0, 0)
    codec: str = "producer"
    is_behind_gateway: bool = False


def batch(size: int, codec: Codec) -> bytes:
    """A batch of records with `size` bytes before compression."""
    dice = Random(size)
    values = (dice.randbytes(RECORD // 2).ljust(RECORD, b"-") for _ in range(size // RECORD))
    return build([Record(n, 1, value=one) for n, one in enumerate(values)], magic=2, codec=codec)


def append(wire: Wire, records: bytes) -> None:
    """Produces a batch. RuntimeError: it is refused."""
    data = [Message(name=TOPIC, partition_data=[Message(index=0, records=records)])]
    body = Message(transactional_id=None, acks=1, timeout_ms=30_000, topic_data=data)
    (topic,) = wire.ask(ApiKey.Produce, 7, body).responses
    code = topic.partition_responses[0].error_code
    if code:
        raise RuntimeError(f"a batch is refused: error {code}")


# --- loads


def append_again(records: bytes, address: Address, count: Counter) -> None:
    """Appends the same records again after each acknowledgement."""
    with Wire(address) as wire:
        while True:
            append(wire, records)
            count.value += 1


def fetch_again(frame: bytes, address: Address, count: Counter) -> None:
    """Fetches everything again after each response. RuntimeError: there is nothing."""
    with Wire(address) as wire:
        while True:
            wire.send(frame)
            if wire.drain() < ENOUGH:
                raise RuntimeError("the consumer is answered next to nothing")
            count.value += 1


def wait_at_the_end(address: Address, count: Counter) -> None:
    """Old consumers that all wait for a producer's records."""
    records, offset = batch(APPENDED, Codec.GZIP), 0
    with ExitStack() as stack:
        producer, *wires = (stack.enter_context(Wire(address)) for _ in range(1 + WAITERS))
        while True:
            for wire in wires:
                wire.send(fetch(OLD, TOPIC, offset, MiB, wait_ms=WAIT_MS))
            sleep(BETWEEN)
            append(producer, records)
            for wire in wires:
                wire.drain()
                count.value += 1
            offset += APPENDED // RECORD


def connect_again(address: Address, count: Counter) -> None:
    """Clients that connect, ask for versions, and wait until the last one has come."""
    while True:
        with ExitStack() as stack:
            for _ in range(STORM // AT_ONCE):
                wires = [stack.enter_context(Wire(address)) for _ in range(AT_ONCE)]
                for wire in wires:
                    wire.send(VERSIONS)
                for wire in wires:
                    wire.drain()
                    count.value += 1


def scenes() -> dict[str, Scene]:
    """Scenes by name. Their data is made when they are used."""
    producer = partial(append_again, batch(4_400_000, Codec.ZSTD))  # 2.2 MB
    consumer = partial(fetch_again, fetch(OLD, TOPIC, 0, 16 * MiB))
    return {
        "waiters": Scene([wait_at_the_end]),
        "producers": Scene([producer] * 2, codec="gzip"),
        "batches": Scene([consumer], batches=(16 * MiB, 2)),
        "gateway": Scene([consumer] * 2, batches=(128 * KiB, 100), is_behind_gateway=True),
        "storm": Scene([connect_again], is_behind_gateway=True),
    }


# --- measuring


def create(address: Address, scene: Scene) -> None:
    """Creates the scene's topic. RuntimeError: the server refuses."""
    topic = Message(
        name=TOPIC,
        num_partitions=1,
        replication_factor=1,
        assignments=[],
        configs=[
            Message(name="compression.type", value=scene.codec),
            Message(name="max.message.bytes", value=str(BATCH_MAX)),
        ],
    )
    body = Message(topics=[topic], timeout_ms=10_000, validate_only=False)
    size, count = scene.batches
    with Wire(address) as wire:
        (made,) = wire.ask(ApiKey.CreateTopics, 2, body).topics
        if made.error_code:
            raise RuntimeError(f"the topic is refused: error {made.error_code}")
        records = batch(size, Codec.GZIP) if count else b""
        for _ in range(count):
            append(wire, records)


@contextmanager
def loaded(loads: list[Load], address: Address) -> Iterator[Counter]:
    """Counts the responses to the loads."""
    count = multiprocessing.Value("q", 0)
    running = [
        multiprocessing.Process(target=load, args=(address, count), daemon=True) for load in loads
    ]
    for process in running:
        process.start()
    try:
        sleep(SETTLING)
        yield count
        if not all(process.is_alive() for process in running):
            raise RuntimeError("a load has ended: the server has hung up")
    finally:
        for process in running:
            process.kill()
            process.join()


def pinged(address: Address, seconds: float) -> tuple[float, float]:
    """The 50th and the 99th percentile of pings, in milliseconds."""
    times: list[float] = []
    with ExitStack() as stack:
        wires = cycle([stack.enter_context(Wire(address)) for _ in range(CONNECTIONS)])
        end = monotonic() + seconds
        while monotonic() < end or len(times) < 2:
            wire = next(wires)
            started = perf_counter()
            wire.send(HEARTBEAT)
            wire.drain()
            times.append((perf_counter() - started) * 1e3)
            sleep(PAUSE)
    percentiles = quantiles(times, n=100)
    return percentiles[49], percentiles[98]


def measure(name: str, scene: Scene, seconds: float) -> None:
    with TemporaryDirectory(prefix="pings-") as directory, ExitStack() as stack:
        serving = stack.enter_context(served(Path(directory), "--writable"))
        create(serving.address, scene)
        if scene.is_behind_gateway:
            serving = stack.enter_context(in_front("{}:{}".format(*serving.address)))
        idle = pinged(serving.address, seconds)
        memory = [serving.memory]
        with loaded(scene.loads, serving.address) as count:
            before = count.value
            busy = pinged(serving.address, seconds)
            responses = count.value - before
        memory.append(settled(lambda: serving.memory, TRIMMED))
    click.echo(
        f"{name:10} idle p50 {idle[0]:6.2f} p99 {idle[1]:6.2f} ms   loaded p50 {busy[0]:6.2f} "
        f"p99 {busy[1]:6.2f} ms   {responses / seconds:7.1f} responses/s to the load   "
        f"memory {memory[0] / MiB:.1f}, {memory[1] / MiB:.1f} MiB"
    )


@click.command(help=(__doc__ or "").partition("\n\n    ")[0])
@click.option("--seconds", default=10.0, show_default=True, help="Of each, idle and loaded.")
@click.option("--only", multiple=True, help="Names of scenes; all, if there are none.")
def main(seconds: float, only: tuple[str, ...]) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    for name, scene in scenes().items():
        if not only or name in only:
            measure(name, scene, seconds)


if __name__ == "__main__":
    main()
