"""The examples of docs/storage.md run."""

import re
from pathlib import Path

from downconvert.storage import LogDir, TopicPartition

from .logs import UNSYNCED, batch

DOCUMENT = Path(__file__).parents[3] / "docs" / "storage.md"
EXAMPLES = re.findall(r"^```python\n((?:.*\n)*?)```$", DOCUMENT.read_text(), re.MULTILINE)


def test_the_examples_run(tmp_path: Path, capsys) -> None:
    with LogDir.open(tmp_path, writable=True, files=UNSYNCED) as log_dir:
        log_dir.logs.create(TopicPartition("clicks", 0)).writer.append(batch(0, 1, 2))
    reading, writing, maintaining = EXAMPLES
    exec(compile(reading, "storage.md", "exec"), {"path": tmp_path})
    assert capsys.readouterr().out.startswith("0 3 3\n0 0 None b'0 0 0 0 0 ' ()\n")
    exec(compile(writing, "storage.md", "exec"), {"path": tmp_path})
    with LogDir.open(tmp_path) as log_dir:
        assert log_dir.logs[TopicPartition("orders", 0)].end_offset == 1
    exec(compile(maintaining, "storage.md", "exec"), {"path": tmp_path})
    assert "removed" not in capsys.readouterr().out
    with LogDir.open(tmp_path) as log_dir:  # its records are far older than any retention
        assert len(list(log_dir.logs[TopicPartition("clicks", 0)].records())) == 3
