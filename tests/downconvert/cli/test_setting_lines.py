import pytest

from downconvert.cli.setting_lines import where

TEXT = """\
listen = "here"
topics = ["a", "b"]

[cluster]
tls = "yes"

[[clients]]
user = "ann"
tls = 1
topics = [""]

[[clients]]
user = "bob"
"""


@pytest.mark.parametrize(
    ("message", "found"),
    [
        ("'here' is not an address: write HOST:PORT", ""),
        ("'listen' is not a setting; is topics meant?", ' (line 1: listen = "here")'),
        ("tls is 'yes', which should be true or false", ' (line 5: tls = "yes")'),
        ("tls is wrong", " (line 5 or 9)"),
        ("a rule for user 'bob' needs users_file", ' (line 13: user = "bob")'),
        ("no cluster: give --bootstrap HOST:PORT", " (line 4: [cluster])"),
        ("nothing that is known", ""),
    ],
)
def test_the_line_of_a_wrong_setting_is_found(message: str, found: str) -> None:
    assert where(TEXT, message) == found


def test_a_long_line_is_cut() -> None:
    assert len(where(f"topics = [{'x' * 1000}]", "topics is wrong")) < 130
