"""The functional tests of IBM's Sarama: the Go client in Telegraf, Burrow, Beats and many others.
Among them is a matrix of writing and reading as a client of 0.8.2, 0.10.2 and later versions.

The module's own zip has the tests. They expect five brokers in containers, each behind a proxy that
breaks connections. The patched copy reads the address of one broker from an environment variable,
uses no proxy, and makes topics with one replica. Tests that stop a broker, break its connections or
run a program in its container are left out."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from . import go_tests
from .outcome import Outcome
from .suite import Selection

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
# File, pattern, replacement. Each test runs in a process of its own, so that another process makes
# the topics once before. The minimum request latency is 0, because no proxy delays requests.
_PATCHES: Final = (
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


class Sarama(go_tests.GoSuite):
    name = "sarama"
    title = "Sarama"
    version = "1.61.1"
    module = "github.com/IBM/sarama"
    build = ("-tags", "functional", "-o", "sarama.test", ".")

    def patch(self, source: Path) -> None:
        for name in dict.fromkeys(name for name, _, _ in _PATCHES):
            path = source / name
            path.write_text(pointed(name, path.read_text()))

    def run(self, selection: Selection) -> Iterator[Outcome]:
        environment = {
            _ADDRESS: selection.bootstrap,
            "KAFKA_VERSION": selection.target.kafka,
            "TOXIPROXY_ADDR": f"http://{selection.bootstrap}",  # must be set, and is never used
        }
        program = self.source / "sarama.test"  # some tests read files beside it
        new = {**environment, _PREPARES: "yes"}
        go_tests.run(program, "TestNone", selection, new, _LIMIT)
        for test in _QUICK if selection.quick else functional(self.source):
            if selection.wants(test):
                yield from go_tests.run(program, test, selection, environment, _LIMIT)


def functional(source: Path) -> list[str]:
    """The tests for a real broker that need only one broker and no proxy."""
    others = set(go_tests.tests_with(_FIVE_BROKERS, source, _FILES))
    return [test for test in go_tests.tests_with(_ANY, source, _FILES) if test not in others]


def pointed(name: str, source: str) -> str:
    """The source of a test file, changed to use the judged broker instead of five with proxies.
    ValueError: the file does not have the expected source."""
    for file, pattern, replacement in _PATCHES:
        if file == name:
            source, count = re.subn(pattern, replacement, source)
            if not count:
                raise ValueError(f"{name} has no {pattern}")
    return source
