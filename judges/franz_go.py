"""franz-go's integration tests: a current client that uses most of a broker's features, with
transactions, both kinds of groups, and regular expressions.

The module's own zip has the tests. The source of a test shows whether it uses a broker. Tests of
share groups are left out: the judged brokers are formatted without that feature."""

import re
from collections.abc import Iterator
from typing import Final

from . import go_tests
from .outcome import Outcome
from .suite import Selection

_USES_A_BROKER: Final = re.compile(r"tmpTopic|newTestClient|getSeedBrokers|adm\(\)|tmpGroup")
_SHARE: Final = "Share"
_LIMIT: Final = 400.0  # seconds a test; the longest take 30 on a machine that is free
_RECORDS: Final = 1000  # in the tests that chain consumers and producers while groups rebalance
_QUICK: Final = ("TestPing", "TestConsumeRegex", "TestIssue434", "TestClient_ProduceLargeMessages")


class FranzGo(go_tests.GoSuite):
    name = "franz-go"
    title = "franz-go"
    version = "1.22.2"
    module = "github.com/twmb/franz-go"
    build = ("-o", "../kgo.test", "./pkg/kgo")

    def run(self, selection: Selection) -> Iterator[Outcome]:
        environment = {
            "KGO_SEEDS": selection.bootstrap,
            "KGO_TEST_RF": "1",
            "KGO_TEST_RECORDS": str(_RECORDS),
        }
        there = go_tests.tests_with(_USES_A_BROKER, self.source / "pkg/kgo", "*_test.go")
        for test in _QUICK if selection.quick else there:
            if selection.wants(test) and _SHARE not in test:
                program = self.source.parent / "kgo.test"
                yield from go_tests.run(program, test, selection, environment, _LIMIT)
