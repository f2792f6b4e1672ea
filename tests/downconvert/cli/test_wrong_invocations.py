"""A wrong invocation ends in one line that names the mistake and says what to do."""

from pathlib import Path

import pytest

from .running import Command, one_line


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with one log directory, an empty one, and files of the wrong kinds."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "logs" / "t-0").mkdir(parents=True)
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("hi\n")
    (tmp_path / "twice").write_text("ann:a\nann:b\n")
    return tmp_path


SERVE = [
    ("logs --listen 192.0.2.1:9092", "192.0.2.1:9092: Cannot assign requested address; choose"),
    ("logs --tls-cert file", "--tls-cert file: it has no certificate in PEM"),
    ("logs --tls-cert empty", "--tls-cert empty: Is a directory"),
    ("logs --sasl-users empty", "empty: is a directory, not a file"),
    ("logs --access empty", "empty: is a directory, not a file"),
    ("--config empty logs", "empty: is a directory, not a file"),
    ("logs --sasl-users twice", "twice: line 2 names 'ann' again"),
    ("logs --rebalance-delay nan", "nan is not a number of seconds"),
    ("logs --cleanup-interval inf", "inf is not a number of seconds"),
    ("logs --idle-timeout nan", "nan is not a number of seconds"),
]
GATEWAY = [
    ("--listen 9092", "'9092' is not an address: write HOST:PORT"),
    ("--http 9100", "http: '9100' is not an address: write HOST:PORT"),
    ("--idle-timeout nan", "nan is not a number of seconds"),
    ("--node-port 0=99999", "node_ports: broker 0 has port 99999; ids begin at 0"),
    ("--node-port=-1=9093", "node_ports: broker -1 has port 9093; ids begin at 0"),
    ("--spool-dir missing", "spool_dir missing: there is no such directory"),
    ("--spool-dir file", "spool_dir file: there is no such directory"),
    ("--sasl PLAIN --secret-file missing", "secret_file missing: No such file or directory"),
    ("--sasl PLAIN --secret-file empty", "secret_file empty: Is a directory"),
]
FILES = [
    ("idle_timeout = 5", "idle_timeout is a setting of [limits]: write it below that line (line 2"),
    ("sasl = 'PLAIN'", "sasl is a setting of [cluster]: write it below that line (line 2"),
    ("http = 9100", "http: 9100 should be a text, in quotation marks (line 2: http = 9100)"),
    ("http = '9100'", "'9100' is not an address: write HOST:PORT (line 2: http = '9100')"),
    ("workers = 1.5", "workers: 1.5 should be a whole number (line 2: workers = 1.5)"),
    ("listen = 9092", "listen is 9092, which should be a text (line 2: listen = 9092)"),
    ("node_port_first = 70000", "node_port_first is 70000: ports are 1 to 65535 (line 2"),
    ("networks = '10.300.0.0/8'", "networks: '10.300.0.0/8' is not a network: write for example"),
    ("recode = { lz5 = 'gzip' }", "recode: 'lz5' is not gzip, snappy, lz4 or zstd"),
    ("isolation = 5", "isolation is read_uncommitted or read_committed (line 2: isolation = 5)"),
    ("users_file = 'missing'", "users_file: missing: No such file or directory (line 2"),
    ("[clients]\nuser = 'a'", "clients is one table: write [[clients]] instead of [clients] (line"),
    ("[limits]\nconnections = 1.5", "connections must be a whole number, not 1.5 (line 3"),
    ("[limits]\nidle_timeout = nan", "idle_timeout must be a number above 0, not nan (line 3"),
]


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(("arguments", "message"), SERVE)
def test_serve_names_what_is_wrong(command: Command, arguments: str, message: str) -> None:
    ran = command("serve", *arguments.split())
    assert ran.code == 2
    assert message in one_line(ran.err)
    assert ran.err.count("192.0.2.1") <= 1


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(("arguments", "message"), GATEWAY)
def test_gateway_names_what_is_wrong(command: Command, arguments: str, message: str) -> None:
    for more in ((), ("--check",)):
        ran = command("gateway", "--bootstrap", "k:1", *arguments.split(), *more)
        assert (ran.code, ran.out) == (2, "")
        assert message in one_line(ran.err)


@pytest.mark.parametrize(("text", "message"), FILES)
def test_a_line_of_the_gateways_file_that_is_wrong_is_named(
    here: Path, command: Command, text: str, message: str
) -> None:
    (here / "gateway.toml").write_text(f'bootstrap = "k:1"\n{text}\n')
    ran = command("gateway", "--config", "gateway.toml", "--check")
    assert (ran.code, ran.out) == (2, "")
    assert message in one_line(ran.err)


@pytest.mark.usefixtures("here")
def test_a_history_that_could_never_be_written_is_an_error_at_the_start(command: Command) -> None:
    ran = command("gateway", "--bootstrap", "k:1", "--history", "missing/history.json")
    assert ran.code == 2
    assert one_line(ran.err).endswith(
        "--history missing/history.json: no file can be written in missing"
    )
    ran = command("gateway", "--bootstrap", "k:1", "--history", "empty")
    assert one_line(ran.err) == "downconvert: empty: is a directory, not a file"


def test_a_file_that_no_gateway_has_written_is_reported_to_doctor(
    here: Path, command: Command
) -> None:
    (here / "rows.json").write_text('[{"client_id": 1}]')
    ran = command("doctor", "rows.json")
    assert ran.code == 2
    assert "rows that no gateway --report --json has written" in one_line(ran.err)
