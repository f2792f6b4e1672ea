"""The contenders convert one shape in turns.

First all output is checked, then the JVMs are warmed up. Then each contender has one round after
another, in turns, so that other load on the machine slows all of them alike."""

from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

from bench.contenders.clients import CLIENTS, NO_CODEC, Client
from bench.contenders.kafka_jvm import KafkaJvm
from bench.contenders.ours import Ours
from bench.contenders.twin import reference_round
from downconvert import ConversionPolicy
from records import Codec
from records.codecs import CompressionLevel

from .check import check, kafka_size
from .results import Case, Result
from .rounds import Fetch, Round, fetches
from .segments import SHAPES, Shape, segment

INSTEAD: Final = {"zstd-100": "lz4-100"}  # a shape that Kafka refuses, and its replacement
CLIENT_ROUNDS: Final = 3  # of the first fetch only, because they are slow


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a comparison. `size`: of segments; None: the shape's own size. `directory`: of
    the segments. `cpu_clock`: CPU time counts, for machines with other load. `warm_up`: the number
    of a JVM's rounds that do not count."""

    rounds: int
    warm_up: int
    chunks: tuple[int, ...]
    fetch_size: int
    size: int | None
    directory: Path
    to_magic: int
    cpu_clock: bool
    with_kafka: bool
    with_eager: bool
    with_reference: bool


class Contest:
    """One shape, cut into fetches, and its results."""

    def __init__(self, shape: Shape, options: Options) -> None:
        self._shape = shape
        self._options = options
        self._path = segment(shape, size=options.size, directory=options.directory)
        self._fetches = fetches(self._path, options.fetch_size)
        self._rival = SHAPES[INSTEAD.get(shape.name, shape.name)]
        self._ours: list[tuple[Ours, list[Round]]] = []
        self.result = Result(shape.name, self._rival.name, [])

    def run(self) -> Result:
        """WrongOutputError: the output of one of our contenders is wrong."""
        for chosen in policies(self._shape, self._options.chunks):
            self._add(chosen)
        with ExitStack() as stack:
            jvms = list(self._jvms(stack)) if self._options.with_kafka else []
            for jvm, _ in jvms:
                for _ in range(self._options.warm_up):
                    jvm.round()
            for _ in range(self._options.rounds):
                for jvm, rounds in jvms:
                    rounds.append(self._timed(jvm.round()))
                for ours, rounds in self._ours:
                    rounds.append(self._timed(ours.round()))
        self._time_clients()
        return self.result

    def _add(self, exact: ConversionPolicy) -> None:
        to_magic = self._options.to_magic
        measured = replace(exact, trim_compressed=False)  # all records of each fetch
        checked = check(self._shape, to_magic, self._path, self._fetches, measured)
        case = Case(exact.chunk_size, exact.compression_level, checked)
        self.result.cases.append(case)
        ours = partial(Ours, to_magic, self._path, self._fetches)
        estimate = replace(exact, size="estimate")
        self._ours += (
            (ours(exact, in_turns=True), case.exact),
            (ours(estimate, in_turns=True), case.estimate),
            (ours(exact), case.chunks),
        )
        if self._options.with_reference:
            first = self._fetches[:1]
            case.reference = self._timed(reference_round(to_magic, self._path, first, exact))

    def _jvms(self, stack: ExitStack) -> Iterator[tuple[KafkaJvm, list[Round]]]:
        to_magic, result = self._options.to_magic, self.result
        path, ranges = self._path, self._fetches
        if self._rival is self._shape:
            ours = result.cases[0].checked
            result.kafka_size = kafka_size(self._shape, to_magic, path, ranges, ours)
        else:
            path = segment(self._rival, size=self._options.size, directory=self._options.directory)
            ranges = fetches(path, self._options.fetch_size)
        yield stack.enter_context(KafkaJvm("lazy", to_magic, path, ranges)), result.kafka
        if self._options.with_eager:
            yield stack.enter_context(KafkaJvm("eager", to_magic, path, ranges)), result.kafka_eager

    def _timed(self, done: Round) -> Round:
        return replace(done, seconds=done.cpu_seconds) if self._options.cpu_clock else done

    def _time_clients(self) -> None:
        codec = self._shape.codec
        if codec is Codec.ZSTD:  # old formats do not have it
            return
        first: list[Fetch] = self._fetches[:1]
        for name in CLIENTS:
            client = Client(name, self._options.to_magic, self._path, first, codec)
            with suppress(*NO_CODEC):
                rounds = [self._timed(client.round()) for _ in range(CLIENT_ROUNDS)]
                self.result.clients[name] = max(rounds, key=lambda each: each.rate)


def policies(shape: Shape, chunks: tuple[int, ...]) -> Iterator[ConversionPolicy]:
    """The policies for a shape: the default with different chunks and compression levels."""
    compression_levels: tuple[CompressionLevel, ...] = (
        ("fast", "kafka") if shape.codec is Codec.GZIP else ("fast",)
    )
    for chunk_size in chunks:
        for compression_level in compression_levels:
            policy = ConversionPolicy(chunk_size=chunk_size, compression_level=compression_level)
            yield replace(policy, recode={"zstd": "none"}) if shape.codec is Codec.ZSTD else policy
