"""kafka-go's tests, of segmentio: a Go client whose connections, readers and groups ask in versions
of 0.10 and 0.11 to this day, beside one that negotiates.

The module's own zip has them. They expect a broker at localhost:9092; here an environment variable
says where it is. Those that use a broker are found in their source."""

import re
from collections.abc import Iterator
from typing import Final

from tests.fetching import once
from tests.fetching import run as installed

from . import go_tests
from .outcome import Outcome
from .places import BUILD
from .suite import Asked

_ADDRESS: Final = "JUDGED_BROKER"
_USES_A_BROKER: Final = re.compile(r"\bjudged\b|ocalClient|makeTopic|function: +test")
_FIXED: Final = re.compile(r'"localhost:9092"|(?<=TCP\()"localhost"(?=\))')
# What was constant is no more, now that the environment says it.
_CONSTANT: Final = re.compile(r"const(?= \w+ = judged$| \([^()]*= judged$[^()]*\))", re.M)
_DECLARED: Final = f'package kafka\n\nimport "os"\n\nvar judged = os.Getenv("{_ADDRESS}")\n'
_WITHIN: Final = re.compile(r"^package kafka$", re.M)  # examples see the package from outside
_ELSEWHERE: Final = ("TestNetworkAddress", "TestBatchQueue")  # they need no broker
# Their helper calls a function that is not there, and all that runs beside them is lost with them.
_PANICS: Final = "TestReaderConsumerGroup/(consumer_group_commits_on_close|verify_offset_committed)"
_LIMIT: Final = 200.0  # seconds a test
_QUICK: Final = ("TestConn", "TestClientProduceAndConsume", "TestClientListOffsets")


class KafkaGo:
    name = "kafka-go"
    title = "segmentio/kafka-go"
    version = "0.4.49"
    of_old_clients = False

    def __init__(self) -> None:
        self._home = BUILD / f"{self.name}-{self.version}"

    def prepare(self) -> None:
        with once(self._home) as new:
            if new:
                source = new / "source"
                go_tests.fetch(f"github.com/segmentio/kafka-go@v{self.version}", source)
                for path in source.glob("*_test.go"):
                    path.write_text(pointed(path.read_text()))
                (source / "judged_test.go").write_text(_DECLARED)
                build = ("go", "test", "-mod=mod", "-c", "-o", "kafka-go.test", ".")
                installed(*build, cwd=source)

    def run(self, asked: Asked) -> Iterator[Outcome]:
        environment = {_ADDRESS: asked.bootstrap, "KAFKA_VERSION": asked.target.kafka}
        source = self._home / "source"
        there = go_tests.tests_with(_USES_A_BROKER, source, "*_test.go")
        for test in _QUICK if asked.quick else there:
            if asked.wants(test) and test not in _ELSEWHERE:
                program = source / "kafka-go.test"  # some tests read files beside it
                yield from go_tests.run(program, test, asked, environment, _LIMIT, _PANICS)


def pointed(source: str) -> str:
    """A file of tests that goes to the broker that is judged; examples are left as they are."""
    if not _WITHIN.search(source):
        return source
    return _CONSTANT.sub("var", _FIXED.sub("judged", source))
