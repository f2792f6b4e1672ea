import json
import logging
import os
import re
import resource
import signal
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.request import urlopen

import pytest

from downconvert.cli.serve_options import parse_topic_config
from downconvert.cli.server_options import parse_address, parse_rule
from downconvert.protocol.schemas import ApiKey, Message
from tests.certificates import self_signed, signed
from tests.downconvert.broker.talking import TOPIC, Talk, fetch
from tests.downconvert.storage import logs

from .running import Command, one_line, start

ANY_PORT: Final = ("--listen", "127.0.0.1:0")
SECONDS: Final = 60.0


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """A topic with a partition of ten records."""
    directory = tmp_path / "kafka"
    directory.mkdir()
    logs.segment(directory / f"{TOPIC}-0", 0, logs.batch(*range(10)))
    return directory


@contextmanager
def served(
    directory: Path, *options: object, json_line: bool = True
) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    """The command, once it is ready, and its ready line."""
    arguments = ("serve", directory, *ANY_PORT, *options, *(("--json",) if json_line else ()))
    with start(*arguments) as process:
        try:
            line = process.stdout.readline() if process.stdout is not None else ""
            assert line, process.stderr.read() if process.stderr is not None else ""
            yield process, json.loads(line) if json_line else {"text": line}
        finally:
            process.kill()


def address(ready: dict[str, Any]) -> tuple[str, int]:
    return ready["host"], ready["port"]


def stopped(process: subprocess.Popen[str], number: int = signal.SIGTERM) -> tuple[int, str]:
    """Its exit code, and what it said on standard error."""
    process.send_signal(number)
    _, err = process.communicate(timeout=SECONDS)
    return process.returncode, err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_directory_is_served_until_it_is_stopped(log_dir: Path, number: int) -> None:
    with served(log_dir) as (process, ready), Talk(address(ready)) as talk:
        response = talk.ask(ApiKey.Fetch, 0, fetch())
        assert response.responses[0].partitions[0].high_watermark == 10
        assert stopped(process, number)[0] == 0


def test_topics_and_the_address_are_printed(log_dir: Path) -> None:
    with served(log_dir, json_line=False) as (process, ready):
        assert ready["text"].startswith("ready: clients connect to 127.0.0.1:")
        _, err = stopped(process)
    assert TOPIC in err


def test_nothing_is_written_without_writable(log_dir: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in log_dir.rglob("*")}
    with served(log_dir) as (process, ready), Talk(address(ready)) as talk:
        topic = Message(name="new", num_partitions=1, replication_factor=1)
        asked = Message(topics=[topic], timeout_ms=1000)
        (refused,) = talk.ask(ApiKey.CreateTopics, 0, asked).topics
        assert refused.error_code != 0
        stopped(process)
    assert {path: path.stat().st_mtime_ns for path in log_dir.rglob("*")} == before


def test_a_writable_directory_takes_topics(log_dir: Path) -> None:
    with served(log_dir, "--writable") as (process, ready), Talk(address(ready)) as talk:
        topic = Message(name="new", num_partitions=2, replication_factor=1)
        asked = Message(topics=[topic], timeout_ms=1000)
        (made,) = talk.ask(ApiKey.CreateTopics, 0, asked).topics
        assert made.error_code == 0
        assert stopped(process)[0] == 0
    assert (log_dir / "new-1").is_dir()


def test_a_directory_that_is_written_to_is_followed(log_dir: Path) -> None:
    with served(log_dir, "--follow") as (process, ready), Talk(address(ready)) as talk:
        with (log_dir / f"{TOPIC}-0" / "00000000000000000000.log").open("ab") as log:
            log.write(logs.batch(*range(10, 20)))
        response = talk.ask(ApiKey.Fetch, 4, fetch(offset=10, wait=30_000))
        assert response.responses[0].partitions[0].records
        stopped(process)


def test_users_and_metrics(log_dir: Path, tmp_path: Path) -> None:
    users = tmp_path / "users"
    users.write_text("alice:wonderland\n")
    options = ("--sasl-users", users, "--metrics-port", 0)
    with served(log_dir, *options) as (process, ready):
        with Talk(address(ready)) as talk:
            talk.send(ApiKey.Metadata, 0, Message(topics=[]))
            assert talk.has_ended()
        with urlopen(f"http://127.0.0.1:{ready['metricsPort']}/metrics", timeout=SECONDS) as page:
            assert b"downconvert_broker_converted_records" in page.read()
        assert stopped(process)[0] == 0


def test_requested_topics_are_created_with_auto_create_topics(tmp_path: Path) -> None:
    options = ("--writable", "--auto-create-topics", "--default-partitions", 3)
    with served(tmp_path, *options) as (process, ready):
        with Talk(address(ready)) as talk:
            body = Message(topics=[Message(name="new")])
            (topic,) = talk.ask(ApiKey.Metadata, 0, body).topics
            assert (topic.error_code, len(topic.partitions)) == (0, 3)
            asked = Message(resources=[Message(resource_type=4, resource_name="0")])
            (found,) = talk.ask(ApiKey.DescribeConfigs, 0, asked).results
            values = {one.name: one.value for one in found.configs}
            assert values["auto.create.topics.enable"] == "true"
            assert values["group.initial.rebalance.delay.ms"] == "3000"
        assert stopped(process)[0] == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--listen", "9092"), "is not HOST:PORT"),
        (("--recode", "lz4"), "is not CODEC=CODEC"),
        (("--recode", "topic=a"), "names no codec"),
        (("--recode", "lzma=gzip"), "is not gzip"),
        (("--topic-config", "events"), "is not TOPIC:KEY=VALUE"),
        (("--writable", "--follow"), "leave --writable out"),
        (("--auto-create-topics",), "it needs --writable"),
        (("--tls-key", "key.pem"), "--tls-key needs --tls-cert"),
        (("--tls-cert", __file__), "no certificate"),
        (("--sasl-users", "/nowhere"), "no such file"),
        (("--access", "/nowhere"), "no such file"),
        (("--access", __file__), "test_serve.py"),
    ],
)
def test_wrong_options_are_reported_in_one_line(
    command: Command, log_dir: Path, arguments: tuple[str, ...], words: str
) -> None:
    ran = command("serve", log_dir, *arguments)
    assert ran.code == 2
    assert words in one_line(ran.err)


def test_a_path_that_is_not_a_directory_is_reported(command: Command, tmp_path: Path) -> None:
    ran = command("serve", tmp_path / "nothing")
    assert ran.code == 2
    assert "log.dirs" in one_line(ran.err)


def test_a_port_in_use_is_reported(command: Command, log_dir: Path) -> None:
    with served(log_dir) as (_, ready):
        ran = command("serve", log_dir, "--listen", f"127.0.0.1:{ready['port']}", "--json")
    assert ran.code == 2
    assert "choose another with --listen" in one_line(ran.err)


def test_a_command_leaves_nothing_in_the_process(command: Command, log_dir: Path) -> None:
    threads = set(threading.enumerate())
    ran = command("serve", log_dir, "--listen", "192.0.2.1:1")
    assert ran.code == 2
    assert set(threading.enumerate()) <= threads  # those of earlier tests may have ended
    for name in ("downconvert.broker", "downconvert.storage"):
        log = logging.getLogger(name)
        assert (log.handlers, log.level, log.propagate) == ([], logging.NOTSET, True)


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("localhost:9092", ("localhost", 9092)),
        ("[::1]:0", ("::1", 0)),
        ("::1:9092", ("::1", 9092)),
    ],
)
def test_addresses_are_read(text: str, parsed: tuple[str, int]) -> None:
    assert parse_address(text) == parsed


def test_rules_are_read() -> None:
    rule = parse_rule("topic=logs-*,client=sarama*,lz4=gzip:magic0,zstd=none")
    assert (rule.topic, rule.client) == ("logs-*", "sarama*")
    assert rule.recode == {"lz4:magic0": "gzip", "zstd": "none"}


def test_topics_settings_are_read() -> None:
    assert parse_topic_config("a:retention.ms = 5") == ("a", "retention.ms", "5")
    for unknown in ("a:k=v", "a:retention.ms=x"):
        with pytest.raises(ValueError, match=r"Unknown topic config|Invalid value"):
            parse_topic_config(unknown)


def test_missing_partitions_of_consumer_offsets_are_reported(log_dir: Path) -> None:
    for index in (0, 3):
        (log_dir / f"__consumer_offsets-{index}").mkdir()
    for options, count in (((), 50), (("--offsets-partitions", 5), 5)):
        with served(log_dir, *options) as (process, _):
            code, output = stopped(process)
        assert code == 0
        assert "__consumer_offsets: partitions 1, 2, 4" in output
        assert f"are missing (of {count})" in output


def test_a_full_disk_is_reported_topics_can_be_deleted_and_the_end_is_clean(
    log_dir: Path,
) -> None:
    """No file may grow: that is an error of the same kind, and needs no disk of its own."""
    with served(log_dir, "--writable") as (process, ready), Talk(address(ready)) as talk:
        topic = Message(name="new", num_partitions=1, replication_factor=1)
        talk.ask(ApiKey.CreateTopics, 0, Message(topics=[topic], timeout_ms=1000))
        _, hard = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (0, hard))
        for _ in range(3):
            (refused,) = talk.ask(ApiKey.CreateTopics, 0, Message(topics=[topic])).topics
            assert refused.error_code != 0
        asked = Message(topic_names=["new"], timeout_ms=1000)
        (deleted,) = talk.ask(ApiKey.DeleteTopics, 1, asked).responses
        assert deleted.error_code == 0
        assert not (log_dir / "new-0").exists()
        code, err = stopped(process)
    assert code != 0
    assert "Traceback" not in err
    assert err.splitlines()[-1].startswith("downconvert: no space left on the device for")
    assert not (log_dir / ".kafka_cleanshutdown").exists()
    with served(log_dir, "--writable") as (process, ready), Talk(address(ready)) as talk:
        response = talk.ask(ApiKey.Fetch, 4, fetch())
        assert response.responses[0].partitions[0].high_watermark == 10
        assert stopped(process)[0] == 0


def test_one_bad_partition_is_reported_and_the_others_are_served(log_dir: Path) -> None:
    bad = log_dir / f"{TOPIC}-1"
    bad.mkdir()
    os.mkfifo(bad / "00000000000000000000.log")
    with served(log_dir) as (process, ready), Talk(address(ready)) as talk:
        response = talk.ask(ApiKey.Fetch, 4, fetch())
        assert response.responses[0].partitions[0].high_watermark == 10
        code, err = stopped(process)
    assert code == 0
    assert f"{TOPIC}-1 is offline" in err


def test_invalid_stored_settings_are_named(log_dir: Path, command: Command) -> None:
    (log_dir / "topic-configs.json").write_text("{")
    ran = command("serve", log_dir, *ANY_PORT)
    assert ran.code == 2
    assert f"{log_dir / 'topic-configs.json'}: " in ran.err
    assert "mend it, or move it away" in one_line(ran.err)


def test_the_log_can_be_json_lines(log_dir: Path) -> None:
    with served(log_dir, "--writable") as (process, ready), Talk(address(ready)) as talk:
        topic = Message(name="new", num_partitions=2, replication_factor=1)
        talk.ask(ApiKey.CreateTopics, 0, Message(topics=[topic], timeout_ms=1000))
        talk.ask(ApiKey.DeleteTopics, 1, Message(topic_names=["new"], timeout_ms=1000))
        _, err = stopped(process)
    lines = [json.loads(line) for line in err.splitlines()]
    text = [(line["message"].partition(",")[0], line.get("topic")) for line in lines]
    assert ("topic new is made", "new") in text
    assert ("topic new is deleted", "new") in text
    recovered = [line for line in lines if "is recovered up to offset 10" in line["message"]]
    assert [(one["partition"], one["bytes_cut"]) for one in recovered] == [(f"{TOPIC}-0", 0)]
    assert lines[-1]["reason"] == "server_stopped"


def test_requests_are_in_the_log_if_wanted(log_dir: Path) -> None:
    with served(log_dir, "-v") as (process, ready), Talk(address(ready)) as talk:
        talk.ask(ApiKey.Fetch, 0, fetch())
        _, err = stopped(process)
    (line,) = (one for one in map(json.loads, err.splitlines()) if one.get("api") == "Fetch")
    assert (line["client_id"], line["version"], line["records_converted"]) == ("test", 0, 10)


def wait_for_line(process: subprocess.Popen[str], words: str) -> str:
    assert process.stderr is not None
    for line in process.stderr:
        if words in line:
            return line
    raise AssertionError(f"it ended without saying {words!r}")


def login(talk: Talk, user: str, password: str) -> int:
    """The error code of a login by PLAIN."""
    talk.ask(ApiKey.SaslHandshake, 1, Message(mechanism="PLAIN"))
    body = Message(auth_bytes=f"\0{user}\0{password}".encode())
    code: int = talk.ask(ApiKey.SaslAuthenticate, 0, body).error_code
    return code


def topics_of(talk: Talk) -> list[str]:
    return [one.name for one in talk.ask(ApiKey.Metadata, 1, Message(topics=None)).topics]


def test_users_and_rules_hold_and_are_read_again_on_sighup(log_dir: Path, tmp_path: Path) -> None:
    users, access = tmp_path / "users", tmp_path / "access.toml"
    users.write_text("alice:wonderland\n")
    rule = f'users_file = "{users}"\n[[clients]]\nuser = "*"\n'
    access.write_text(rule)
    with served(log_dir, "--access", access) as (process, ready):
        with Talk(address(ready)) as before:
            assert login(before, "alice", "wonderland") == 0
            assert topics_of(before) == [TOPIC]
            users.write_text("alice:wonderland\nbob:builder\n")
            access.write_text(rule + 'topics = "other"\n')
            process.send_signal(signal.SIGHUP)
            wait_for_line(process, "have been read again")
            assert topics_of(before) == [TOPIC]  # which was open before
        with Talk(address(ready)) as talk:
            assert login(talk, "bob", "builder") == 0
            assert topics_of(talk) == []
        access.write_text("= 1")
        process.send_signal(signal.SIGHUP)
        wait_for_line(process, "stay as they were")
        with Talk(address(ready)) as talk:
            assert login(talk, "bob", "guess") == 58
            assert talk.has_ended()
        line = json.loads(wait_for_line(process, "failed login"))
        assert (line["client"], line["reason"], line["level"]) == (
            "127.0.0.1",
            "failed_login",
            "warning",
        )
        assert stopped(process)[0] == 0


def test_sighup_does_not_end_what_has_nothing_to_read_again(log_dir: Path) -> None:
    with served(log_dir) as (process, ready), Talk(address(ready)) as talk:
        process.send_signal(signal.SIGHUP)
        wait_for_line(process, "have been read again")
        assert talk.is_served()


def test_client_certificates_determine_the_principal(log_dir: Path, tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path)
    (tmp_path / "ca").mkdir()
    ca, ca_key = self_signed(tmp_path / "ca")
    access = tmp_path / "access.toml"
    access.write_text(f'client_ca = "{ca}"\n[[clients]]\ncertificate = "reader-*"\n')
    options = ("--tls-cert", certificate, "--tls-key", key, "--access", access)
    with served(log_dir, *options) as (_, ready):
        for name, is_served in (("reader-1", True), ("other", False), (None, False)):
            context = ssl.create_default_context(cafile=certificate)
            if name is not None:
                context.load_cert_chain(*signed(tmp_path, name, ca, ca_key))
            with Talk(address(ready), context) as talk:
                if is_served:
                    assert topics_of(talk) == [TOPIC]
                else:
                    talk.send(ApiKey.Metadata, 1, Message(topics=None))
                    assert talk.has_ended()


@pytest.mark.parametrize(("option", "words"), [((), "no"), (("--writable",), "yes")])
def test_a_check_says_whether_anything_is_written(
    option: tuple[str, ...], words: str, command: Command, tmp_path: Path
) -> None:
    """Rules may allow changes, but without --writable nobody changes anything."""
    ran = command("serve", tmp_path, "--check", *option)
    assert re.findall(r"^writable +(.*)$", ran.out, re.MULTILINE) == [words]


def test_a_directory_of_segments_is_distinguished_from_a_log_directory(tmp_path: Path) -> None:
    logs.segment(tmp_path, 0, logs.batch(0))
    with served(tmp_path, json_line=False) as (process, _):
        _, errors = stopped(process)
    assert "it has no partition, such as clicks-0" in errors
