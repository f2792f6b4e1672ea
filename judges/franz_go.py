"""franz-go's integration tests: a client of today that asks for all that a broker has, with
transactions, both kinds of groups, and regular expressions.

The module's own zip has them. Those that use a broker are found in their source. Tests of share
groups are left out: the brokers here are formatted without that feature."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.fetching import once
from tests.fetching import run as installed

from . import limited
from .go_tests import ends
from .outcome import Outcome, Verdict
from .places import BUILD
from .suite import Asked

_TEST: Final = re.compile(r"^func (Test\w+)\(.*?^}", re.M | re.S)
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
                module = f"github.com/twmb/franz-go@v{self.version}"
                fetched = json.loads(installed("go", "mod", "download", "-json", module))
                source = new / "source"
                shutil.copytree(fetched["Dir"], source)
                for path in (source, *source.rglob("*")):
                    path.chmod(0o755 if path.is_dir() else 0o644)  # the module cache is read-only
                build = ("go", "test", "-c", "-o", str(new / "kgo.test"), "./pkg/kgo")
                installed(*build, cwd=source)

    def run(self, asked: Asked) -> Iterator[Outcome]:
        environment = {
            "KGO_SEEDS": asked.bootstrap,
            "KGO_TEST_RF": "1",
            "KGO_TEST_RECORDS": str(_RECORDS),
        }
        tests = _QUICK if asked.quick else tests_with_a_broker(self._home / "source/pkg/kgo")
        for test in tests:
            if not asked.wants(test):
                continue
            log = asked.logs / f"{test}.log"
            command = (str(self._home / "kgo.test"), "-test.v", "-test.run", f"^{test}$")
            ended = limited.run(command, _LIMIT, log, environment=environment)
            why = "time limit" if ended.code is None else ended.last_line
            outcomes = list(ends(ended.said, why))
            yield from outcomes
            if all(outcome.verdict is not Verdict.FAIL for outcome in outcomes):
                log.unlink()


def tests_with_a_broker(package: Path) -> list[str]:
    """The names of the tests in a package's files whose source names a helper that connects."""
    return [
        test[1]
        for path in sorted(package.glob("*_test.go"))
        for test in _TEST.finditer(path.read_text())
        if _USES_A_BROKER.search(test[0]) and _SHARE not in test[1]
    ]
