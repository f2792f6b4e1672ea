"""The output of Kafka's own tools is read as right or wrong."""

from pathlib import Path
from zipfile import ZipFile

import pytest

from judges.kafka_tools import VERSIONS, main_class
from judges.kafka_tools.tools import TOOLS, Place, acknowledged, consumed, printed


def test_a_producer_s_total_counts() -> None:
    output = (
        '{"name":"producer_send_success","key":null}\n{"name":"tool_data","sent":1000,"acked":%d}\n'
    )
    assert acknowledged(output % 1000) == ""
    assert acknowledged(output % 0) == "0 of 1000 acknowledged"
    assert acknowledged("Exception in thread main\n{broken\n") == "0 of 1000 acknowledged"


def test_a_consumer_has_to_read_all_and_to_commit() -> None:
    read = '{"count":600,"name":"records_consumed"}\n{"name":"records_consumed","count":400}\n'
    committed = '{"success":true,"name":"offsets_committed"}\n'
    assert consumed(read + committed) == ""
    assert consumed(read) == "offsets were not committed"
    assert consumed(committed) == "0 of 1000 read"


def test_a_console_consumer_prints_all_in_order() -> None:
    lines = [f"record-{n}" for n in range(1000)]
    assert printed("\n".join(["log4j:WARN", *lines, "Processed 1000"])) == ""
    assert printed("\n".join(lines[:999])) == "999 records"
    assert printed("\n".join(reversed(lines))) != ""


@pytest.mark.parametrize("version", VERSIONS)
def test_a_versions_tools_get_brokers_and_topic(version: str) -> None:
    numbers = tuple(map(int, version.split(".")))
    place = Place(numbers, "host:1", "own", "file")
    there = [tool for tool in TOOLS if tool.since <= numbers < tool.until]
    assert there
    for tool in there:
        assert any("host:1" in argument for argument in tool.arguments(place)), tool.name


def test_the_name_of_a_class_that_moved(tmp_path: Path) -> None:
    with ZipFile(tmp_path / "kafka-tools-4.0.0.jar", "w") as jar:
        jar.writestr("org/new/Tool.class", b"")
    assert main_class(tmp_path, ("old.Tool", "org.new.Tool")) == "org.new.Tool"
    with pytest.raises(LookupError, match=r"old\.Tool"):
        main_class(tmp_path, ("old.Tool",))
