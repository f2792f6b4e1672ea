"""`downconvert gateway --check`: its output for valid and for wrong settings."""

import json
from pathlib import Path

from .running import Command, one_line

SETTINGS = """
bootstrap = "kafka-1:9092"
networks = "10.0.0.0/8"
users_file = "{users}"
deny_by_default = true

[[clients]]
user = "billing-*"
topics = "billing-*"
written_topics = "billing-in-*"
groups = "billing-*"
sasl = "PLAIN"
username = "billing"
secret_file = "{secret}"

[[clients]]
user = "root"
super_user = true

[[clients]]
networks = "10.1.0.0/16"
read_only = true
consumer_byte_rate = 1000
connections = 20
connection_creation_rate = 0.5
request_percentage = 150
"""
MEANS = """\
listen             127.0.0.1:9092
cluster            kafka-1:9092
connect            from 10.0.0.0/8
TLS                no
PROXY header       from nobody
deny by default    yes
observe            no

rule 1: user billing-*
  read topics        billing-*
  change topics      billing-in-*, of billing-*
  groups             billing-*: join, commit and delete
  transactional ids  none
  the cluster        nothing
  asks as            billing, by PLAIN

rule 2: user root
  read topics        all
  change topics      all
  groups             all: join, commit and delete
  transactional ids  all: use, and fence who does
  the cluster        everything

rule 3: from 10.1.0.0/16
  read topics        all
  change topics      none
  groups             none
  transactional ids  none
  the cluster        nothing
  fetch              at most 1,000 bytes a second
  connections        at most 20, 0.5 new ones a second
  request time       at most 150 % of one core

others: refused
"""


def settings(tmp_path: Path, text: str = SETTINGS) -> Path:
    users, secret, file = (tmp_path / name for name in ("users", "secret", "gateway.toml"))
    users.write_text("root:r00t-password\n")
    secret.write_text("s3cret-of-billing")
    file.write_text(text.format(users=users, secret=secret))
    return file


def test_each_rule_is_printed_in_words(command: Command, tmp_path: Path) -> None:
    ran = command("gateway", "--config", settings(tmp_path), "--check")
    assert (ran.code, ran.out) == (0, MEANS)
    assert "s3cret" not in ran.out
    assert "r00t" not in ran.out


def test_each_rule_is_printed_as_json(command: Command, tmp_path: Path) -> None:
    ran = command("gateway", "--config", settings(tmp_path), "--check", "--json")
    report = json.loads(ran.out)
    assert ran.code == 0
    assert [rule["clients"] for rule in report["rules"]] == [
        "user billing-*",
        "user root",
        "from 10.1.0.0/16",
        "refused",
    ]
    assert report["rules"][0]["allows"]["change topics"] == "billing-in-*, of billing-*"


def test_without_rules_one_line_covers_all_clients(command: Command) -> None:
    ran = command("gateway", "--bootstrap", "k:1", "--check", "--read-only")
    assert "no rules: everybody" in ran.out
    assert "all: look at, and neither join nor commit" in ran.out
    ran = command("gateway", "--bootstrap", "k:1", "--check", "--observe")
    assert "passes through: the cluster decides" in ran.out


def test_users_without_rules_have_the_rights_of_all_clients(
    command: Command, tmp_path: Path
) -> None:
    text = 'bootstrap = "k:1"\nusers_file = "{users}"\n'
    ran = command("gateway", "--config", settings(tmp_path, text), "--check")
    assert "no rules: who log in by PLAIN, SCRAM-SHA-256, SCRAM-SHA-512; others are" in ran.out


def test_a_wrong_line_is_shown(command: Command, tmp_path: Path) -> None:
    file = settings(tmp_path, SETTINGS.replace("written_topics", "writen_topics"))
    ran = command("gateway", "--config", file, "--check")
    assert (ran.code, ran.out) == (2, "")
    assert one_line(ran.err).endswith('(line 10: writen_topics = "billing-in-*")')


def test_an_invalid_certificate_is_a_wrong_line(command: Command, tmp_path: Path) -> None:
    text = 'bootstrap = "k:1"\n[cluster]\ntls = true\nca_file = "{users}"\n'
    ran = command("gateway", "--config", settings(tmp_path, text), "--check")
    assert (ran.code, ran.out) == (2, "")
    assert "TLS to the cluster" in one_line(ran.err)
