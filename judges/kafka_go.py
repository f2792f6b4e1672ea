"""The tests of segmentio's kafka-go, a Go client. Its connections, readers and groups still send
the request versions of 0.10 and 0.11; another part of it negotiates versions.

The module's own zip has the tests. They expect a broker at localhost:9092; the patched copy reads
the address from an environment variable. The source of a test shows whether it uses a broker."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from . import go_tests
from .outcome import Outcome
from .suite import Selection

_ADDRESS: Final = "JUDGED_BROKER"
_USES_A_BROKER: Final = re.compile(r"\bjudged\b|ocalClient|makeTopic|function: +test")
_FIXED: Final = re.compile(r'"localhost:9092"|(?<=TCP\()"localhost"(?=\))')
# A constant cannot hold an address from the environment, so that it becomes a variable.
_CONSTANT: Final = re.compile(r"const(?= \w+ = judged$| \([^()]*= judged$[^()]*\))", re.M)
_DECLARED: Final = f'package kafka\n\nimport "os"\n\nvar judged = os.Getenv("{_ADDRESS}")\n'
_WITHIN: Final = re.compile(r"^package kafka$", re.M)  # examples have a package of their own
_NO_BROKER: Final = ("TestNetworkAddress", "TestBatchQueue")
# Their helper calls a nil function. The panic ends the program, and with it all parallel tests.
_PANICS: Final = "TestReaderConsumerGroup/(consumer_group_commits_on_close|verify_offset_committed)"
_LIMIT: Final = 200.0  # seconds a test
_QUICK: Final = ("TestConn", "TestClientProduceAndConsume", "TestClientListOffsets")


class KafkaGo(go_tests.GoSuite):
    name = "kafka-go"
    title = "segmentio/kafka-go"
    version = "0.4.49"
    module = "github.com/segmentio/kafka-go"
    build = ("-mod=mod", "-o", "kafka-go.test", ".")

    def patch(self, source: Path) -> None:
        for path in source.glob("*_test.go"):
            path.write_text(pointed(path.read_text()))
        (source / "judged_test.go").write_text(_DECLARED)

    def run(self, selection: Selection) -> Iterator[Outcome]:
        environment = {_ADDRESS: selection.bootstrap, "KAFKA_VERSION": selection.target.kafka}
        there = go_tests.tests_with(_USES_A_BROKER, self.source, "*_test.go")
        for test in _QUICK if selection.quick else there:
            if selection.wants(test) and test not in _NO_BROKER:
                program = self.source / "kafka-go.test"  # some tests read files beside it
                yield from go_tests.run(program, test, selection, environment, _LIMIT, _PANICS)


def pointed(source: str) -> str:
    """The source of tests, changed to connect to the judged broker. Examples stay unchanged."""
    if not _WITHIN.search(source):
        return source
    return _CONSTANT.sub("var", _FIXED.sub("judged", source))
