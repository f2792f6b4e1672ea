"""Lines of kafka.request.logger, of each of its forms."""

import json
import time

import pytest

from downconvert.doctor.evidence import Seen
from downconvert.doctor.request_log import RequestLog
from records.units import KiB

from .wire import read

JAVA = "clientInformation:ClientInformation(softwareName=apache-kafka-java, softwareVersion=2.4.1)"


def text_line(
    api: str = "FETCH", version: int = 4, client: str = "app", end: str = "", v6: bool = False
) -> str:
    where = "0:0:0:0:0:0:0:1:9092-0:0:0:0:0:0:0:2:5000-3" if v6 else "10.0.0.1:9092-10.0.0.2:5000-3"
    return (
        f"[2020-01-31 12:00:00,123] DEBUG Completed request:RequestHeader(apiKey={api}, "
        f"apiVersion={version}, clientId={client}, correlationId=7) -- {{replica_id=-1}},response:"
        f"{{x=1}} from connection {where};totalTime:1.2,principal:User:ANONYMOUS,listener:PLAINTEXT"
        f"{end} (kafka.request.logger)\n"
    )


def json_line(client: str | None = "app", *, forwarded: bool = False, **header: object) -> str:
    head = {"requestApiKey": 1, "requestApiVersion": 3, "correlationId": 7, "clientId": client}
    output = {
        "isForwarded": forwarded,
        "requestHeader": {**head, "requestApiKeyName": "FETCH", **header},
        "request": {"replicaId": -1, "topics": []},
        "response": {"responses": []},
        "connection": "10.0.0.1:9092-10.0.0.2:5000-3-11",
        "totalTimeMs": 1.2,
        "principal": "User:ANONYMOUS",
        "listener": "PLAINTEXT",
        "clientInformation": {"softwareName": "librdkafka", "softwareVersion": "1.4.2"},
    }
    whole = json.dumps(output, separators=(",", ":"))
    return f"[2024-01-31 12:00:00,123] DEBUG Completed request:{whole} (kafka.request.logger)\n"


WHEN_2020 = 1_580_472_000.0
WHEN_2024 = 1_706_702_400.0


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (text_line(), Seen("app", "", "10.0.0.2", 1, 4, 1, WHEN_2020)),
        (text_line("LIST_OFFSETS", 0), Seen("app", "", "10.0.0.2", 2, 0, 1, WHEN_2020)),
        (text_line(v6=True), Seen("app", "", "0:0:0:0:0:0:0:2", 1, 4, 1, WHEN_2020)),
        (
            text_line(end=f",{JAVA}"),
            Seen("app", "apache-kafka-java 2.4.1", "10.0.0.2", 1, 4, 1, WHEN_2020),
        ),
        (json_line(), Seen("app", "librdkafka 1.4.2", "10.0.0.2", 1, 3, 1, WHEN_2024)),
        (json_line(None), Seen("", "librdkafka 1.4.2", "10.0.0.2", 1, 3, 1, WHEN_2024)),
        (
            json.dumps({"ts": "2024-01-31T12:00:00Z", "message": json_line().split("DEBUG ")[1]}),
            Seen("app", "librdkafka 1.4.2", "10.0.0.2", 1, 3, 1, WHEN_2024),
        ),
    ],
    ids=["2.x", "name", "ipv6", "2.4", "json", "null", "json in json"],
)
@pytest.mark.parametrize("size", [7, 64 * KiB])
def test_a_line_is_read_in_each_form(line: str, expected: Seen, size: int) -> None:
    log = RequestLog()
    assert read(log, line.encode(), size) == [expected]
    assert not log.problems.counts


def test_a_clients_name_does_not_change_other_fields() -> None:
    trap = '","connection":"1.1.1.1:1-6.6.6.6:1-1"}'
    assert read(RequestLog(), json_line(trap).encode())[0].address == "10.0.0.2"
    trap = "x, correlationId=1) -- from connection 1.1.1.1:1-6.6.6.6:1-1;totalTime:1"
    [found] = read(RequestLog(), text_line(client=trap).encode())
    assert (found.address, found.api, found.version) == ("10.0.0.2", 1, 4)


def test_a_line_of_any_length_is_read_by_its_ends() -> None:
    long = json_line().replace('"topics":[]', '"topics":[' + '{"topic":"t"},' * 100_000 + "0]")
    log = RequestLog()
    [found] = read(log, long.encode())
    assert (found.software, found.address) == ("librdkafka 1.4.2", "10.0.0.2")
    assert not log.problems.counts


def test_a_long_line_inside_a_line_of_json_is_read_by_its_ends() -> None:
    """A fetch of a thousand partitions, where a layout writes JSON."""
    trap = '","connection":"1.1.1.1:1-6.6.6.6:1-1"}'
    long = json_line(trap).replace('"topics":[]', '"topics":[' + '{"topic":"t"},' * 100_000 + "0]")
    line = json.dumps({"ts": "2024-01-31T12:00:00Z", "message": long.split("DEBUG ")[1]})
    log = RequestLog()
    [found] = read(log, line.encode())
    assert (found.client_id, found.address, found.when) == (trap, "10.0.0.2", WHEN_2024)
    assert not log.problems.counts


def test_forwarded_requests_are_counted_where_they_were_sent_from() -> None:
    assert not read(RequestLog(), json_line(forwarded=True).encode())


@pytest.mark.parametrize(
    "line",
    [
        "Completed request:\n",
        "Completed request:{}\n",
        "Completed request:" + '{"requestHeader":' * 10_000 + "\n",
        json_line(requestApiKey=9999),
        json_line(requestApiVersion=True),
        json_line(requestApiVersion="3"),
        text_line("NO_SUCH_API"),
        text_line(version=99_999),
        text_line().replace("RequestHeader", "Header"),
    ],
)
def test_damage_is_counted_and_skipped(line: str) -> None:
    log = RequestLog()
    assert len(read(log, (line + text_line()).encode())) == 1
    assert list(log.problems.counts.values()) == [1]


def test_other_lines_are_ignored_and_a_log_of_only_those_is_a_problem() -> None:
    log = RequestLog()
    assert not read(log, b"[2020-01-31 12:00:00,123] INFO started (kafka.server.KafkaServer)\n" * 3)
    assert "kafka.request.logger" in next(iter(log.problems.counts))


def test_a_line_takes_time_by_its_length_only() -> None:
    began = time.process_time()
    for piece in (", correlationId=", "{", "[", '"connection":', " from connection ", "\\", " "):
        read(RequestLog(), ("Completed request:RequestHeader(apiKey=FETCH, apiVersion=1, clientId="
                            + piece * (200_000 // len(piece))).encode())  # fmt: skip
    assert time.process_time() - began < 5
