"""The description of a rule says what it allows."""

import re
from itertools import product
from pathlib import Path
from typing import Final

import pytest

from downconvert.access import meaning, operations
from downconvert.access.operations import Kind
from downconvert.access.rights import Access
from downconvert.access.settings import access_of, load
from tests.downconvert.rights.rules import KINDS

DOCS: Final = Path(__file__).parents[3] / "docs"
NOTHING: Final = {meaning.NONE, "nothing"}


@pytest.mark.parametrize("kind", KINDS)
def test_denied_operations_are_described_as_none(kind: str) -> None:
    access = access_of(KINDS[kind], Access())
    described = meaning.of_access(access)
    on_topic = access.operations(Kind.TOPIC, "own-t")
    assert (described["read topics"] in NOTHING) == (not on_topic & operations.READ)
    for about, kind_of, name in (
        ("groups", Kind.GROUP, "own-g"),
        ("transactional ids", Kind.TRANSACTIONAL_ID, "own-id"),
        ("the cluster", Kind.CLUSTER, ""),
    ):
        assert (described[about] in NOTHING) == (not access.operations(kind_of, name))
    is_written = any(access.allows_writing(name) for name in ("own-t", "no-t", "other"))
    assert (described["change topics"] in NOTHING) == (not access.writes_somewhere)
    assert is_written <= access.writes_somewhere


def test_a_followers_rights_are_described() -> None:
    described = meaning.of_access(Access(follower_ids=frozenset({3, 2})))
    assert described["follows as"] == "broker 2, 3"


def test_each_limit_is_described_whatever_other_limits_there_are() -> None:
    limits: dict[str, tuple[float, str]] = {
        "producer_byte_rate": (1_001.0, "at most 1,001 bytes a second"),
        "consumer_byte_rate": (2_002.0, "at most 2,002 bytes a second"),
        "connections": (3_003, "at most 3,003"),
        "connection_creation_rate": (4.5, "4.5 new ones a second"),
        "request_percentage": (50.0, "at most 50 % of one core"),
    }
    without = meaning.of_access(Access())
    for chosen in product([False, True], repeat=len(limits)):
        given = [one for one, is_chosen in zip(limits, chosen, strict=True) if is_chosen]
        described = meaning.of_access(Access(**{one: limits[one][0] for one in given}))  # type: ignore[arg-type]
        assert without.items() <= described.items()
        more = ", ".join(words for name, words in described.items() if name not in without)
        assert more == ", ".join(limits[one][1] for one in given)


@pytest.mark.parametrize("page", ["gateway-access.md", "serve.md"])
def test_the_examples_of_the_guides_leave_nothing_open(page: str, tmp_path: Path) -> None:
    """A rule with lists says something of each kind, or denies it on purpose."""
    texts = re.findall(r"```toml\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)
    rules = []
    for text in texts:
        file = tmp_path / "example.toml"
        file.write_text(text)
        rules += [access_of(one, Access()) for one in load(file).get("clients", [])]
    lists = [access for access in rules if access.has_lists]
    assert lists
    for access in lists:
        assert access.groups
        assert access.transactional_ids or access.is_read_only
        assert access.operations(Kind.TRANSACTIONAL_ID, "payments") == operations.NO_OPERATION
