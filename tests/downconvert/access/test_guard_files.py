"""A broker's rules as they are read from a file: rights by client, and what is an error."""

from pathlib import Path

import pytest

from downconvert.access.guard import Guard
from downconvert.access.rights import Access, ConfigError

FILE = """
users_file = "{users}"
networks = ["127.0.0.0/8"]
groups = ["team-*"]

[[clients]]
user = "writer"
topics = ["a-*", "b"]

[[clients]]
networks = ["127.0.0.9"]
read_only = true
"""


def test_rules_are_read_from_a_file(tmp_path: Path) -> None:
    users, file = tmp_path / "users", tmp_path / "access.toml"
    users.write_text("writer:secret\nother:secret\n")
    file.write_text(FILE.format(users=users))
    guard = Guard.load(file)
    assert guard.access.admits("127.0.0.1")
    assert not guard.access.admits("10.0.0.1")
    writer = guard.find("127.0.0.1", "writer")
    assert writer is not None
    assert writer.allows_writing("a-1")
    assert not writer.allows("c")
    assert not writer.allows_group("other")
    old = guard.find("127.0.0.9")
    assert old is not None
    assert old.is_read_only
    assert guard.find("127.0.0.1", "other") is None


RIGHTS = """
deny_by_default = true
groups = ["team-*"]

[[clients]]
networks = ["127.0.0.1"]
super_user = true

[[clients]]
networks = ["127.0.0.2"]
follower_ids = [2, 3]

[[clients]]
networks = ["127.0.0.3"]
"""


def test_a_rule_opens_everything_where_deny_is_the_default(tmp_path: Path) -> None:
    file = tmp_path / "access.toml"
    file.write_text(RIGHTS)
    guard = Guard.load(file)
    assert guard.find("127.0.0.1") == Access()
    follower, other = guard.find("127.0.0.2"), guard.find("127.0.0.3")
    assert other == guard.access == Access(denies_unnamed=True, groups=("team-*",))
    assert follower is not None
    assert follower.follower_ids == {2, 3}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("topcis = []", "'topcis' is not a setting"),
        ("topics = []", "empty list"),
        ("deny_by_default = 1", "should be true or false"),
        ('follower_ids = ["2"]', "'follower_ids' is not a setting"),
        ('[[clients]]\nnetworks = "::1"\nfollower_ids = ["2"]', "a list of brokers' ids"),
        ('[[clients]]\nnetworks = "::1"\nsuper_user = true\ntopics = "a"', "leave out topics"),
        ("[[clients]]\nread_only = true", "needs a user, a group, a certificate or networks"),
        ("[[clients]]\nuser = 'x'", "needs users_file"),
        ("[[clients]]\nuser = 'x'\nsasl = 'PLAIN'", "'sasl' is not"),
        ("= 1", "access.toml"),
    ],
)
def test_senseless_settings_are_errors(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "access.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=message):
        Guard.load(file)
