"""`downconvert doctor`: its output, its exit codes, and following."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tests.downconvert.doctor.test_metrics_page import NAMED
from tests.downconvert.doctor.test_request_log import json_line, text_line
from tests.downconvert.doctor.wire import api_versions, packets, pcap, pcapng, request
from tests.report_pages import check_fits_a_phone

from .running import Command, one_line, start

TIMEOUT = 60  # seconds


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """One that breaks with each release, one with 4.0.0 alone, one with none."""
    path = tmp_path / "kafka-request.log"
    path.write_text(
        text_line("FETCH", 2, "sarama") * 2
        + text_line("JOIN_GROUP", 1, "brod")
        + text_line("FETCH", 12, "modern")
    )
    return path


def test_clients_that_would_break_are_named_with_advice(command: Command, log: Path) -> None:
    ran = command("doctor", log)
    assert ran.code == 1
    assert "Fetch v2" in ran.out
    assert "JoinGroup v1 (by 4.0.0)" in ran.out
    assert "Config.Version" in ran.out
    assert "Kafka 4.0.0: 2 of 3 clients would break." in ran.out
    assert "Kafka 4.1.0 to 4.4.0: 1 of 3 clients would break." in ran.out
    assert "modern" not in ran.out


def test_the_release_decides(command: Command, log: Path) -> None:
    log.write_text(text_line("JOIN_GROUP", 1, "brod"))
    assert command("doctor", log).code == 0
    assert command("doctor", "--kafka", "4.0", log).code == 1
    wrong = command("doctor", "--kafka", "3.9.1", log)
    assert (wrong.code, "4.0.0" in one_line(wrong.err)) == (2, True)


def test_json_has_everything(command: Command, log: Path) -> None:
    log.write_text(json_line() + "Completed request:{}\n")
    document = json.loads(command("doctor", "--json", log).out)
    [client] = document["clients"]
    assert (client["software"], client["address"]) == ("librdkafka 1.4.2", "10.0.0.2")
    assert client["breaks"]
    assert client["refused"][0]["api"] == "Fetch"
    assert "1.8 or later" in client["advice"]
    assert document["problems"] == [f"{log}: lines of requests that cannot be read"]


def test_a_page_is_written_and_harmless(command: Command, log: Path, tmp_path: Path) -> None:
    log.write_text(text_line("FETCH", 1, "<script>alert(1)</script>") + text_line(client="ok"))
    page = tmp_path / "report.html"
    assert command("doctor", "--html", page, log).code == 1
    text = page.read_text()
    assert "<script>" not in text
    assert "&lt;script&gt;" in text
    assert "http" not in text.lower()
    check_fits_a_phone(page)


def test_control_characters_in_names_are_removed(command: Command, log: Path) -> None:
    log.write_text(json_line("\x1b[2J[bold]\u202e"))
    out = command("doctor", log).out
    assert "\x1b" not in out
    assert "\u202e" not in out
    assert "[bold]" in out
    page = log.with_name("report.html")
    command("doctor", log, "--html", page)
    assert "\u202e" not in page.read_text()


@pytest.mark.parametrize("is_page", [False, True])
def test_a_log_whose_name_is_no_utf_8_is_read(tmp_path: Path, *, is_page: bool) -> None:
    log = tmp_path / os.fsdecode(b"caf\xe9.log")
    log.write_text(text_line("FETCH", 1))
    page = tmp_path / "report.html"
    process = start("doctor", log, *(("--html", page) if is_page else ()))
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 1, "a client would break"
    assert "would break" in out
    assert page.exists() == is_page


def test_counts_of_several_sources_are_added(command: Command, log: Path, tmp_path: Path) -> None:
    capture = tmp_path / "kafka.pcap"
    stream = api_versions("librdkafka", "1.4.2", "app") + request(2, 0, "app")
    capture.write_bytes(pcap(packets(stream, 100)))
    metrics = tmp_path / "metrics.txt"
    metrics.write_text(NAMED)
    document = json.loads(command("doctor", "--json", log, capture, metrics).out)
    names = {(client["client_id"], client["software"]) for client in document["clients"]}
    assert {("app", "librdkafka 1.4.2"), ("", "sarama 1.2"), ("sarama", "")} <= names
    assert "packet capture" in document["sources"][1]


def test_impossible_times_are_left_out(command: Command, tmp_path: Path) -> None:
    capture = tmp_path / "kafka.pcapng"
    capture.write_bytes(pcapng(packets(request(1, 0), 100), ticks=2**64 - 1).replace(
        b"\x09\0\x01\0\x09", b"\x09\0\x01\0\0"))  # fmt: skip
    document = json.loads(command("doctor", "--json", capture).out)
    assert document["clients"][0]["last_seen"] is None


def test_other_ports_can_be_chosen(command: Command, tmp_path: Path) -> None:
    capture = tmp_path / "kafka.pcap"
    capture.write_bytes(pcap(packets(request(1, 0), 100, port=19092)))
    nothing = command("doctor", capture)
    assert (nothing.code, "--port" in one_line(nothing.err)) == (2, True)
    assert command("doctor", "--port", 19092, capture).code == 1


@pytest.mark.parametrize(
    "data", [b"", b"a note\n", b"\xd4\xc3\xb2\xa1", b"[{}]", b"\x1f\x8bnone", b"# HELP a b\n"]
)
def test_a_file_without_evidence_is_bad_input(
    command: Command, tmp_path: Path, data: bytes
) -> None:
    path = tmp_path / "evidence"
    path.write_bytes(data)
    ran = command("doctor", path)
    assert ran.code == 2
    assert str(path) in one_line(ran.err)


def test_a_missing_file_is_bad_input(command: Command, tmp_path: Path) -> None:
    assert "no such file" in one_line(command("doctor", tmp_path / "none").err)


def test_a_log_is_followed_over_its_rotation(tmp_path: Path, log: Path) -> None:
    process = start("doctor", "--follow", log)
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("sarama, ")
        log.rename(tmp_path / "kafka-request.log.1")
        log.write_text(text_line("FETCH", 0, "second"))
        assert process.stdout.readline().startswith("second, ")
        with log.open("a") as file:
            file.write(text_line("PRODUCE", 0, "third"))
        assert process.stdout.readline().startswith("third, ")
        os.killpg(process.pid, signal.SIGINT)
        out, _ = process.communicate(timeout=TIMEOUT)
    finally:
        process.kill()
    assert process.returncode == 1
    assert "Kafka 4.0.0: 4 of 5 clients would break." in out


def test_it_needs_no_extra(log: Path) -> None:
    process = start("doctor", "--json", log, blocked="kafka prometheus_client scramp")
    out, err = process.communicate(timeout=TIMEOUT)
    assert (process.returncode, err) == (1, "")
    assert len(json.loads(out)["clients"]) == 3


def test_a_pipe_is_followed_to_its_end() -> None:
    code = "from downconvert.cli import main; import sys; sys.exit(main())"
    arguments = [sys.executable, "-c", code, "doctor", "--follow", "--json", "-"]
    data = pcap(packets(request(1, 2, "app"), 10))
    ran = subprocess.run(arguments, input=data, capture_output=True, timeout=TIMEOUT, check=False)
    assert ran.returncode == 1
    assert json.loads(ran.stdout)["clients"][0]["client_id"] == "app"


class _Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(NAMED.encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def url() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), _Page) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/metrics"
        server.shutdown()
        thread.join()


def test_a_page_of_metrics_is_fetched_from_a_url(command: Command, url: str) -> None:
    document = json.loads(command("doctor", "--json", url).out)
    assert document["clients"][0]["software"] == "sarama 1.2"
    assert "followed" in one_line(command("doctor", "--follow", url).err)


def test_a_url_that_does_not_answer_is_bad_input(command: Command) -> None:
    ran = command("doctor", "http://127.0.0.1:1/metrics")
    assert ran.code == 2
    assert one_line(ran.err).endswith("http://127.0.0.1:1/metrics: Connection refused")


def test_a_url_of_another_kind_is_refused(command: Command) -> None:
    words = "ftp://broker-1/metrics: only http:// and https:// are read"
    assert one_line(command("doctor", "ftp://broker-1/metrics").err) == f"downconvert: {words}"


def test_a_directory_is_refused_with_advice(command: Command, tmp_path: Path) -> None:
    output = one_line(command("doctor", tmp_path).err)
    assert output.endswith(
        f"{tmp_path}: is a directory; name request logs, captures or pages in it, such as "
        f"{tmp_path}/kafka-request.log*"
    )


def test_requests_refused_are_counted_among_all_in_the_block_and_in_json(
    command: Command, tmp_path: Path
) -> None:
    """A gateway's report counts all requests of a client; a block says how many are refused."""
    report = tmp_path / "report.json"
    row = {"client_id": "app", "software": "", "address": "10.0.0.1", "last_seen": 1.0}
    rows = [row | {"api": "Fetch", "version": 2, "requests": 390}]
    rows += [row | {"api": "Metadata", "version": 5, "requests": 2454}]
    report.write_text(json.dumps(rows))
    assert "390 of 2,844" in command("doctor", report).out
    [client] = json.loads(command("doctor", "--json", report).out)["clients"]
    assert (client["requests_refused"], client["requests"]) == (390, 2844)
