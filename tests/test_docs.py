"""The documents do what they say: their examples run, their bytes are the bytes."""

import os
import re
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from downconvert import ConversionPolicy, LazyDownConvertRecords, convert
from records import Codec, MemoryRecords, Record, build
from records.formats import V2

DOCS = Path(__file__).parent.parent / "docs"


def blocks(name: str, language: str) -> list[tuple[str, str]]:
    """The fenced blocks of a document: what stands behind the language, and the text."""
    text = (DOCS / name).read_text()
    return re.findall(rf"^```{language}[ ]?(.*)\n((?:.*\n)*?)```$", text, flags=re.MULTILINE)


EMBEDDING = [code for _, code in blocks("embedding.md", "python")]


@pytest.mark.parametrize("code", EMBEDDING, ids=range(len(EMBEDDING)))
def test_the_examples_of_embedding_run_and_send_every_record(code, tmp_path):
    segment = tmp_path / "00000000000000000000.log"
    segment.write_bytes(
        b"".join(
            build(
                [Record(offset=10 * n + i, timestamp=i, value=b"v" * 1000) for i in range(10)],
                magic=V2,
                codec=codec,
            )
            for n, codec in enumerate((Codec.NONE, Codec.ZSTD, Codec.NONE))
        )
    )
    received = bytearray()
    ours, theirs = socket.socketpair()
    reader = threading.Thread(target=lambda: drain(theirs, received))
    reader.start()
    exec(compile(code, "embedding.md", "exec"), {"path": segment, "sock": ours})
    ours.close()
    reader.join()
    theirs.close()
    if "write_to" in code or "sendall" in code:
        assert received.count(b"v" * 1000) >= 20


def drain(sock: socket.socket, into: bytearray) -> None:
    while piece := sock.recv(65536):
        into += piece


EXAMPLES = blocks("conversion.md", "hex")
SOURCE = bytes.fromhex(EXAMPLES[0][1])


def test_the_worked_example_begins_with_its_source():
    assert EXAMPLES[0][0] == "source"


@pytest.mark.parametrize(("options", "expected"), EXAMPLES[1:], ids=[o for o, _ in EXAMPLES[1:]])
def test_the_bytes_of_the_worked_example_are_what_conversion_makes(options, expected):
    chosen = dict(option.split("=") for option in options.split())
    to_magic, first_offset = int(chosen["to_magic"]), int(chosen.get("first_offset", 0))
    records = MemoryRecords(SOURCE)
    if "policy" in chosen:
        send = LazyDownConvertRecords(
            records, to_magic, first_offset, ConversionPolicy.kafka()
        ).to_send()
        made = bytearray()
        while not send.completed:
            send.write_to(Sink(made))
    else:
        made = bytearray(b"".join(convert(records, to_magic, first_offset)))
    assert made.hex(" ") == bytes.fromhex(expected).hex(" ")


class Sink:
    """A channel that takes everything."""

    def __init__(self, into: bytearray) -> None:
        self._into = into

    def write(self, data: memoryview) -> int:
        self._into += data
        return len(data)


ADDRESS = b"lazy-downconvert/lazy-downconvert"
ROOT = DOCS.parent


def links(text: str) -> list[str]:
    text = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    definitions = re.findall(r"^\[[^\]]+\]: (\S+)$", text, flags=re.MULTILINE)
    return re.findall(r"\]\(([^)\s]+)\)", text) + definitions


def test_the_links_of_the_readme_lead_to_files_that_are_there() -> None:
    found = links((ROOT / "README.md").read_text())
    assert len(found) > 15
    for link in found:
        assert (ROOT / link.partition("#")[0]).exists(), link


def test_no_file_gives_the_project_an_address_before_it_has_one() -> None:
    for path in (*ROOT.glob("*.*"), *DOCS.glob("*.md"), *(ROOT / "deploy").iterdir()):
        if path.is_file():
            assert ADDRESS not in path.read_bytes(), path


@pytest.mark.parametrize("path", sorted(DOCS.glob("*.md")), ids=lambda path: path.name)
def test_the_links_of_a_document_lead_to_files_that_are_there(path: Path) -> None:
    for link in links(path.read_text()):
        if "://" not in link and not link.startswith("#"):
            assert (path.parent / link.partition("#")[0]).exists(), link


README = (ROOT / "README.md").read_text()


def test_the_first_example_of_the_readme_runs_as_it_stands_and_prints_what_is_said(tmp_path):
    example, printed = re.search(
        r"^```python\n(.*?)^```\n\nIt prints:\n\n```\n(.*?)^```$", README, re.MULTILINE | re.DOTALL
    ).groups()
    script = tmp_path / "first.py"
    script.write_text(example)
    ran = subprocess.run(
        [sys.executable, script],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    assert (ran.stdout, ran.stderr) == (printed, "")


@pytest.mark.parametrize("path", sorted(DOCS.glob("*.md")), ids=lambda path: path.name)
def test_no_page_installs_what_is_not_published(path: Path) -> None:
    """How to install is said in README.md and index.md; other pages name the extra."""
    assert "install lazy-downconvert" not in path.read_text()
    assert "'lazy-downconvert[" not in path.read_text()


def test_the_first_page_says_what_only_a_clone_has() -> None:
    for text in (README, (DOCS / "index.md").read_text()):
        assert "`python -m bench…`" in text


def test_the_readme_says_in_one_place_how_to_get_the_package() -> None:
    """Until it is on an index; then this place changes."""
    assert README.count("your clone of this repository") == 1
    assert "pip install lazy-downconvert" not in README
    assert README.index("your clone of this repository") < README.index("```python")


FILES = re.compile(
    r"`((?:bench|deploy|downconvert|judges|native|records|simulator|tests)/[\w./-]+\.(?:py|rs|json|yaml|service))`"
)


@pytest.mark.parametrize(
    "path", sorted([*ROOT.glob("*.md"), *DOCS.glob("*.md")]), ids=lambda path: path.name
)
def test_a_file_that_a_document_names_is_there(path: Path) -> None:
    if path.name != "CHANGELOG.md":  # which is about older trees
        for name in FILES.findall(path.read_text()):
            assert (ROOT / name).exists(), name


@pytest.mark.parametrize(
    "path", sorted([*ROOT.glob("*.md"), *DOCS.glob("*.md")]), ids=lambda path: path.name
)
def test_no_line_begins_with_a_number_that_would_make_it_a_list_item(path: Path) -> None:
    """A sentence that is wrapped before `15. ` is shown as two items."""
    last = 0
    for line in path.read_text().splitlines():
        found = re.match(r"\s*(\d+)[.)] ", line)
        if found is not None:
            assert int(found[1]) in (1, last + 1), line
            last = int(found[1])


def test_files_that_the_architecture_names_exist():
    """A path may leave out its first folders, if the text before it names them."""
    root = DOCS.parent
    paths = [f"/{path.relative_to(root)}" for path in root.glob("[drst]*/**/*.py")]
    named = set(re.findall(r"`([a-z0-9_/]+\.py)`", (DOCS / "architecture.md").read_text()))
    assert len(named) > 50
    assert [one for one in named if not any(path.endswith(f"/{one}") for path in paths)] == []
