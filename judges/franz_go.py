"""franz-go's integration tests: a client of today that asks for all that a broker has, with
transactions, both kinds of groups, and regular expressions.

The module's own zip has them. Those that use a broker are found in their source. Tests of share
groups are left out: the brokers here are formatted without that feature."""

import re
from collections.abc import Iterator
from typing import Final

from tests.fetching import once
from tests.fetching import run as installed

from . import go_tests
from .outcome import Outcome
from .places import BUILD
from .suite import Asked

_USES_A_BROKER: Final = re.compile(r"tmpTopic|newTestClient|getSeedBrokers|adm\(\)|tmpGroup")
_SHARE: Final = "Share"
_LIMIT: Final = 400.0  # seconds a test; the longest take 30 on a machine that is free
_RECORDS: Final = 1000  # of the chains of consumers and producers, in groups that rebalance
_QUICK: Final = ("TestPing", "TestConsumeRegex", "TestIssue434", "TestClient_ProduceLargeMessages")


class FranzGo:
    name = "franz-go"
    title = "franz-go"
    version = "1.22.2"
    of_old_clients = False

    def __init__(self) -> None:
        self._home = BUILD / f"{self.name}-{self.version}"

    def prepare(self) -> None:
        with once(self._home) as new:
            if new:
                source = new / "source"
                go_tests.fetch(f"github.com/twmb/franz-go@v{self.version}", source)
                build = ("go", "test", "-c", "-o", str(new / "kgo.test"), "./pkg/kgo")
                installed(*build, cwd=source)

    def run(self, asked: Asked) -> Iterator[Outcome]:
        environment = {
            "KGO_SEEDS": asked.bootstrap,
            "KGO_TEST_RF": "1",
            "KGO_TEST_RECORDS": str(_RECORDS),
        }
        package = self._home / "source/pkg/kgo"
        there = go_tests.tests_with(_USES_A_BROKER, package, "*_test.go")
        for test in _QUICK if asked.quick else there:
            if asked.wants(test) and _SHARE not in test:
                program = self._home / "kgo.test"
                yield from go_tests.run(program, test, asked, environment, _LIMIT)
