"""One file for a command, as its operator writes it; variables and options beside it."""

import json
import re
import signal
from pathlib import Path

import pytest

from tests.ports import LOOPBACK

from .gateways import gateway, wait_for_line
from .running import Command, one_line, start

GATEWAY = """\
bootstrap = "kafka-1:9092"
topics = ["metrics-*"]
read_only = true
workers = 2
http = "127.0.0.1:0"
[cluster]
sasl = "PLAIN"
username = "old"
secret_file = "{secret}"
[limits]
idle_timeout = 99
[node_ports]
0 = 9093
"""
OPTIONS = {
    "bootstrap": "kafka-1:9092",
    "topics": "metrics-*",
    "workers": "2",
    "http": "127.0.0.1:0",
    "sasl": "PLAIN",
    "username": "old",
    "idle-timeout": "99",
    "node-port": "0=9093",
}


def test_a_file_variables_and_options_have_the_same_effect(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("correct-horse")
    file = tmp_path / "gateway.toml"
    file.write_text(GATEWAY.format(secret=secret))
    options = {**OPTIONS, "secret-file": str(secret)}
    by_file = command("gateway", "--check", "--config", file)
    given = [part for name, text in options.items() for part in (f"--{name}", text)]
    by_options = command("gateway", "--check", *given, "--read-only")
    for name, text in {**options, "read-only": "true"}.items():
        monkeypatch.setenv(f"DOWNCONVERT_GATEWAY_{name.replace('-', '_').upper()}", text)
    by_environment = command("gateway", "--check")
    assert by_file == by_options == by_environment
    assert by_file.code == 0
    assert "asks as            old, by PLAIN" in by_file.out
    assert "correct-horse" not in by_file.out


def test_options_override_variables_and_variables_override_the_file(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "serve.toml"
    file.write_text(f"directory = {str(tmp_path)!r}\nthreads = 3\ncleaner_rate = '5MiB'\n")
    monkeypatch.setenv("DOWNCONVERT_SERVE_CONFIG", str(file))

    def effective(*options: str) -> object:
        return json.loads(command("serve", "--check", "--json", *options).out)["threads"]

    assert effective() == "3"
    monkeypatch.setenv("DOWNCONVERT_SERVE_THREADS", "4")
    assert effective() == "4"
    assert effective("--threads", "5") == "5"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("threads = 0", "threads: 0 is not in the range 1<=x<=64."),
        ("threads = true", "threads: needs a value, not a switch"),
        ("writable = 1", "writable: 1 should be true or false"),
        ("listen = 'a'", "listen: 'a' is not HOST:PORT"),
        ("topic_config = [1]", "topic_config: must be a list of texts"),
        ("listen = ['a:1']", "listen: must be one value"),
        ("topics = []", "topics is an empty list"),
        ("lisen = 'a:1'", "'lisen' is not a setting; is listen meant"),
        ("config = 'x'", "'config' is not a setting"),
        ("qqq = 1", "'qqq' is not a setting; there are: .*listen"),
    ],
)
def test_a_wrong_line_in_serves_file_is_shown(
    command: Command, tmp_path: Path, line: str, message: str
) -> None:
    file = tmp_path / "serve.toml"
    file.write_text(f"# ours\n{line}\n")
    ran = command("serve", tmp_path, "--config", file, "--check")
    assert (ran.code, ran.out) == (2, "")
    words = one_line(ran.err)
    assert words.endswith(f" (line 2: {line})"), words
    assert re.search(message, words)


@pytest.mark.parametrize("line", ["workers = 0", "http = [1]", "verbose = 'yes'"])
def test_a_wrong_line_in_the_gateways_file_is_shown(
    command: Command, tmp_path: Path, line: str
) -> None:
    file = tmp_path / "gateway.toml"
    file.write_text(f"bootstrap = 'k:1'\n{line}\n")
    ran = command("gateway", "--config", file, "--check")
    assert ran.code == 2
    assert f"(line 2: {line})" in one_line(ran.err)


def test_rules_may_be_in_serves_file_but_not_in_two(command: Command, tmp_path: Path) -> None:
    file, access = tmp_path / "serve.toml", tmp_path / "access.toml"
    file.write_text("topics = ['a-*']\n[[clients]]\nnetworks = ['10.0.0.0/8']\nread_only = true\n")
    access.write_text("topics = ['b-*']")
    ran = command("serve", tmp_path, "--config", file, "--check")
    assert "rule 1" in ran.out
    assert "others: refused" in ran.out
    ran = command("serve", tmp_path, "--config", file, "--access", access, "--check")
    assert "leave out --access" in one_line(ran.err)


def test_a_reload_reports_changed_settings_and_those_that_need_a_restart(
    port: int, tmp_path: Path
) -> None:
    file = tmp_path / "gateway.toml"
    file.write_text("workers = 1\n[limits]\nmemory = 16777216\n")
    with gateway(port, "--config", file) as running:
        running.ready()
        file.write_text(
            "workers = 2\nread_only = true\n[limits]\nmemory = 33554432\nconnections = 9\n"
        )
        for _ in range(2):  # as long as it has not been restarted
            running.process.send_signal(signal.SIGHUP)
            wait_for_line(running, "need a restart: memory, workers")
        file.write_text("workers = 1\nread_only = true\n[limits]\nconnections = 9\n")
        running.process.send_signal(signal.SIGHUP)
        wait_for_line(running, "read again: nothing has changed")
        file.write_text("[limits]\nconnections = 8\n")
        running.process.send_signal(signal.SIGHUP)
        wait_for_line(running, "read again: applied: what clients may do, connections")


def test_serve_reports_options_that_need_a_restart(tmp_path: Path) -> None:
    file, directory = tmp_path / "serve.toml", tmp_path / "log"
    directory.mkdir()
    file.write_text(f"listen = '{LOOPBACK}:0'\nthreads = 1\n")
    process = start("serve", directory, "--config", file)
    try:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith("ready")
        file.write_text(f"listen = '{LOOPBACK}:0'\nthreads = 2\ntopics = ['a']\n")
        process.send_signal(signal.SIGHUP)
        output = iter(process.stderr.readline, "")
        assert any("need a restart have changed: threads" in line for line in output)
    finally:
        process.kill()
        process.communicate()
