"""Sarama's functional tests, of IBM: the Go client inside Telegraf, Burrow, Beats and many others.
Among them is a matrix of what it writes and reads as a client of 0.8.2, 0.10.2 and later ones.

The module's own zip has them. They expect five brokers in containers, each behind a proxy that
breaks connections; here one broker is told by an environment variable, nothing is in between, and
topics have one replica. What stops a broker, breaks its connections or runs a program in its
container is left out."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.fetching import once
from tests.fetching import run as installed

from . import go_tests
from .outcome import Outcome
from .places import BUILD
from .suite import Asked

_ADDRESS: Final = "JUDGED_BROKER"
_FILES: Final = "functional_*_test.go"
_FIVE_BROKERS: Final = re.compile(
    r"SaveProxy|Proxies\b|proxyForBrokerID|DockerTestBroker|skipIfExistingEnvironment|WithJava"
    r'|"docker"'
    r"|\*testing\.M\b"
)
_ANY: Final = re.compile("")
_LIMIT: Final = 200.0  # seconds a test
_QUICK: Final = ("TestFuncOffsetManager", "TestFuncTxnProduce", "TestConsumerHighWaterMarkOffset")
_PREPARES: Final = "JUDGED_IS_NEW"
# What is written otherwise, in which file. Topics are made once, by a process of its own, and each
# test is one, too; requests take 10 ms where there is a proxy that delays them.
_OTHERWISE: Final = (
    ("functional_test.go", r"(ReplicationFactor: +)3\b", r"\g<1>1"),
    (
        "functional_test.go",
        r"(?ms)(^func setupToxiProxies\([^\n]*{\n).*?(^}$)",
        rf'\1\tenv.KafkaBrokerAddrs = []string{{os.Getenv("{_ADDRESS}")}}\n\treturn nil\n\2',
    ),
    ("functional_test.go", r"(?ms)(^func resetProxies\([^\n]*{\n).*?(^}$)", r"\1\tt.Helper()\n\2"),
    (
        "functional_test.go",
        r"(?m)^(func prepareTestTopics\(.*{\n)",
        rf'\1\tif os.Getenv("{_PREPARES}") == "" {{\n\t\treturn nil\n\t}}\n'
        r"\tdefer time.Sleep(5 * time.Second) // until they have leaders\n",
    ),
    ("functional_producer_test.go", "minRequestLatencyInMs := 10", "minRequestLatencyInMs := 0"),
)


class Sarama:
    name = "sarama"
    title = "Sarama"
    version = "1.61.1"
    of_old_clients = False

    def __init__(self) -> None:
        self._home = BUILD / f"{self.name}-{self.version}"

    def prepare(self) -> None:
        with once(self._home) as new:
            if new:
                source = new / "source"
                go_tests.fetch(f"github.com/IBM/sarama@v{self.version}", source)
                for name in dict.fromkeys(name for name, _, _ in _OTHERWISE):
                    path = source / name
                    path.write_text(pointed(name, path.read_text()))
                build = ("go", "test", "-tags", "functional", "-c", "-o", "sarama.test", ".")
                installed(*build, cwd=source)

    def run(self, asked: Asked) -> Iterator[Outcome]:
        environment = {
            _ADDRESS: asked.bootstrap,
            "KAFKA_VERSION": asked.target.kafka,
            "TOXIPROXY_ADDR": f"http://{asked.bootstrap}",  # only that it is there: nobody asks it
        }
        source = self._home / "source"
        program = source / "sarama.test"  # some tests read files beside it
        new = {**environment, _PREPARES: "yes"}
        go_tests.run(program, "TestNone", asked, new, _LIMIT)
        for test in _QUICK if asked.quick else functional(source):
            if asked.wants(test):
                yield from go_tests.run(program, test, asked, environment, _LIMIT)


def functional(source: Path) -> list[str]:
    """The tests for a real broker that one broker, with nothing in between, is enough for."""
    elsewhere = set(go_tests.tests_with(_FIVE_BROKERS, source, _FILES))
    return [test for test in go_tests.tests_with(_ANY, source, _FILES) if test not in elsewhere]


def pointed(name: str, source: str) -> str:
    """A file of the tests, with the broker that is judged in place of five and their proxies.
    ValueError: it is not the file that is known."""
    for file, pattern, instead in _OTHERWISE:
        if file == name:
            source, count = re.subn(pattern, instead, source)
            if not count:
                raise ValueError(f"{name} has no {pattern}")
    return source
