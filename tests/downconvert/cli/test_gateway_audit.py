"""Who has logged in, and who was refused? A file of their own says so, as lines of JSON."""

import json
from pathlib import Path

import pytest

from downconvert.protocol.schemas import ApiKey, Message
from tests.downconvert.gateway.serving import Wire

from .gateways import gateway
from .running import Command, one_line


@pytest.mark.parametrize("workers", [1, 2])
def test_a_login_and_a_refusal_are_lines_of_the_audit(
    port: int, tmp_path: Path, workers: int
) -> None:
    users, audit = tmp_path / "users", tmp_path / "audit.json"
    users.write_text("ann:secret\n")
    audit.write_text('{"event": "before"}\n')
    settings = tmp_path / "gateway.toml"
    settings.write_text(f'users_file = "{users}"\naudit = "{audit}"\n')
    with gateway(port, "--config", settings, "--workers", workers, "--quiet") as running:
        running.ready()
        for password in ("secret", "wrong"):
            with Wire(running.address) as client:
                client.ask(ApiKey.SaslHandshake, 1, Message(mechanism="PLAIN"))
                token = f"\0ann\0{password}".encode()
                client.ask(ApiKey.SaslAuthenticate, 0, Message(auth_bytes=token))
        code, said = running.end()
    assert code == 0
    assert "has logged in" not in said
    before, *lines = map(json.loads, audit.read_text().splitlines())
    assert before == {"event": "before"}  # it is appended to
    lines.sort(key=lambda line: str(line["event"]))
    found = [(one["event"], one["client"], one["principal"]) for one in lines]
    assert found == [("logged_in", "127.0.0.1", "ann"), ("refused", "127.0.0.1", "")]
    assert lines[1]["claimed"] == "ann"
    assert all("secret" not in json.dumps(line) for line in lines)


def test_an_audit_that_cannot_be_written_is_an_error_at_the_start(
    command: Command, tmp_path: Path
) -> None:
    file = tmp_path / "missing" / "audit.json"
    ran = command("gateway", "--bootstrap", "127.0.0.1:1", "--audit", file)
    assert ran.code == 2
    assert f"--audit {file}: No such file or directory" in one_line(ran.err)
