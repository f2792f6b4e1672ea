"""A segment is converted as it should be, and whatever happens, no half of it has its name."""

from collections.abc import Callable, Iterator
from itertools import zip_longest
from pathlib import Path

import pytest

from downconvert import ConversionPolicy, convert
from downconvert.spark.jobs.convert.convert_segment import (
    Task,
    convert_segment,
)
from downconvert.spark.jobs.convert.manifest import Entry, digest_of, is_true, note_path, read_note
from downconvert.spark.jobs.convert.rewrite import Settings
from downconvert.spark.jobs.convert.verification import as_converted
from downconvert.storage import AbortedTransaction, Log, LogDir
from downconvert.storage.cleaning.upgrade_log import upgrade
from downconvert.storage.indexes.transaction_index import ENTRY, VERSION
from downconvert.storage.names import Kind, file_name
from downconvert.storage.verify import verify_indexes
from records import Codec, ControlRecordType, MemoryRecords, Record, build_marker, read
from records.formats import V2
from tests import corpus
from tests.corpus import Conversion
from tests.downconvert.conversion.comparable import comparable
from tests.downconvert.storage import brokers
from tests.downconvert.storage.logs import UNSYNCED, batch, indexed_segment, segment

from .converting import NAME, files, task

WHOLE = [
    conversion
    for conversion in corpus.conversions()
    if conversion.position == 0
    and conversion.size == len(corpus.segment(conversion.input))
    and conversion.first_offset == 0
    and conversion.eager.records_converted  # else Kafka gives what it was given, markers and all
]


# --- what is made


@pytest.mark.parametrize("kind", corpus.kinds())
def test_a_conversion_equals_kafkas(tmp_path: Path, kind: str) -> None:
    for name in corpus.of_kind(kind):
        check_conversion(tmp_path / name / "topic-0", name)


def check_conversion(source: Path, name: str) -> None:
    source.mkdir(parents=True)
    data = corpus.segment(name)
    base_offset = next((header.base_offset for header in MemoryRecords(data).batches()), 0)
    (source / file_name(base_offset, Kind.LOG)).write_bytes(data)
    for conversion in WHOLE:
        if conversion.input == name:
            entry = converted(source, base_offset, conversion)
            made = Path(entry.target).read_bytes()
            assert conversion.eager.blob is not None
            kafkas = corpus.blob(conversion.eager.blob)
            for our, kafka in zip_longest(comparable(made), comparable(kafkas)):
                assert our == kafka, conversion


def converted(source: Path, base_offset: int, conversion: Conversion) -> Entry:
    to_do = task(source, conversion.to_magic, base_offset, policy=ConversionPolicy.kafka())
    entry = convert_segment(to_do, attempt="1", files=UNSYNCED)
    assert (entry.status, entry.error) == ("converted", "")
    assert entry.verified in ("records", "stream")
    return entry


WRITTEN_OUT = [name for name in brokers.directories() if name.endswith("/log")]


@pytest.mark.parametrize(
    ("directory", "to_magic"),
    [
        *((name, 1) for name in brokers.directories()),
        *((name, 2) for name in WRITTEN_OUT),
        ("2.8.2/log", 0),
    ],
)
def test_directories_of_all_versions_are_read_back_as_they_were(
    real: Path, tmp_path: Path, directory: str, to_magic: int
) -> None:
    with LogDir.open(real / directory) as log_dir:
        for partition, log in log_dir.logs.items():
            target = tmp_path / str(partition)
            for one in log.segments:
                entry = convert_segment(
                    Task(
                        topic=partition.topic,
                        partition=partition.partition,
                        base_offset=one.base_offset,
                        source=str(log.path),
                        target=str(target),
                        settings=Settings(to_magic=to_magic),
                    ),
                    attempt="1",
                    files=UNSYNCED,
                )
                assert (entry.status, entry.error) == ("converted", "")
                assert is_true(entry, target)
                assert list(verify_indexes(target, one.base_offset)) == []
            with Log.open(target) as made:
                expected = [as_converted(record, to_magic) for record in everything(log)]
                assert list(everything(made)) == expected
                magics = {h.magic for s in made.segments for h in s.slice(0, s.size).batches()}
                assert magics <= ({2} if to_magic == V2 else set(range(to_magic + 1)))


def everything(log: Log) -> Iterator[Record]:
    """All that is on the disk, also before the log's start."""
    for one in log.segments:
        yield from read(one.slice(0, log.end_of(one)))


@pytest.mark.parametrize("directory", ["2.8.2/log", "0.8.2.2/log"])
def test_v2_equals_an_upgrade_on_one_machine(real: Path, tmp_path: Path, directory: str) -> None:
    upgrade(real / directory, tmp_path / "upgraded", files=UNSYNCED)
    with LogDir.open(real / directory) as log_dir:
        for partition, log in log_dir.logs.items():
            target = tmp_path / "out" / str(partition)
            target.parent.mkdir(exist_ok=True)
            for one in log.segments:
                convert_segment(
                    Task(
                        topic=partition.topic,
                        partition=partition.partition,
                        base_offset=one.base_offset,
                        source=str(log.path),
                        target=str(target),
                        settings=Settings(to_magic=2),
                    ),
                    attempt="1",
                    files=UNSYNCED,
                )
            made = files(target)
            notes = [name for name in made if name.endswith(".json")]
            assert len(notes) == len(log.segments)
            for name in notes:
                del made[name]
            assert made == files(tmp_path / "upgraded" / str(partition))


@pytest.mark.parametrize("to_magic", [1, 2])
def test_a_segment_that_a_cleaner_had_ready_is_converted_to_the_name_that_it_gets(
    tmp_path: Path, to_magic: int
) -> None:
    """Its indexes too, among them that of aborted transactions."""
    fields = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
    marker = build_marker(ControlRecordType.ABORT, offset=2, timestamp=1, producer_id=7)
    made = []
    for name, suffix in (("plain", ""), ("swapped", ".swap")):
        directory = tmp_path / name / "topic-0"
        directory.parent.mkdir()
        indexed_segment(directory, 0, batch(0, 1, **fields), marker, batch(4))
        aborted = AbortedTransaction(7, 0, 2, 5)
        path = directory / file_name(0, Kind.TRANSACTION_INDEX)
        path.write_bytes(ENTRY.pack(VERSION, *aborted))
        for file in [*directory.iterdir()]:
            file.rename(file.with_name(file.name + suffix))
        entry = convert_segment(task(directory, to_magic), attempt="1", files=UNSYNCED)
        assert (entry.status, entry.aborted_batches) == ("converted", int(to_magic == 1))
        found = files(directory.with_name("out-0"))
        made.append({one: data for one, data in found.items() if not one.endswith(".json")})
    assert made[0] == made[1]
    assert (path.name in made[0]) is (to_magic == V2)


# --- again


def test_converted_segments_are_kept(source: Path) -> None:
    first = convert_segment(task(source), attempt="1", files=UNSYNCED)
    assert first.status == "converted"
    before = files(source.with_name("out-0"))
    again = convert_segment(task(source), attempt="2", files=UNSYNCED)
    assert again.status == "kept"
    assert again.target_digest == first.target_digest == digest_of(Path(first.target))
    assert files(source.with_name("out-0")) == before


def change_target(source: Path) -> Task:
    target = source.with_name("out-0") / NAME
    target.write_bytes(target.read_bytes()[:-1] + b"?")
    return task(source)


def remove_target(source: Path) -> Task:
    (source.with_name("out-0") / NAME).unlink()
    return task(source)


def change_source(source: Path) -> Task:
    with (source / NAME).open("ab") as file:
        file.write(batch(43))
    return task(source)


def change_settings(source: Path) -> Task:
    return task(source, to_magic=0)


def damage_note(source: Path) -> Task:
    note_path(source.with_name("out-0"), 0).write_text('{"topic": "t"')
    return task(source)


@pytest.mark.parametrize(
    "change", [change_target, remove_target, change_source, change_settings, damage_note]
)
def test_segments_that_changed_since_they_were_noted_are_converted_again(
    source: Path, change: Callable[[Path], Task]
) -> None:
    convert_segment(task(source), attempt="1", files=UNSYNCED)
    changed = change(source)
    entry = convert_segment(changed, attempt="2", files=UNSYNCED)
    assert entry.status == "converted"
    assert read_note(source.with_name("out-0"), 0) == entry
    assert is_true(entry, source.with_name("out-0"))


# --- what goes wrong


def damage(data: bytearray) -> None:
    data[-1] ^= 0xFF


def tear(data: bytearray) -> None:
    del data[-5:]


@pytest.mark.parametrize(
    ("change", "words"),
    [(damage, "checksum does not match"), (tear, "what follows is not a whole batch")],
)
def test_a_damaged_segment_gets_no_name(
    source: Path, change: Callable[[bytearray], None], words: str
) -> None:
    segment(source, 43, batch(43))
    data = bytearray((source / NAME).read_bytes())
    change(data)
    (source / NAME).write_bytes(data)
    entry = convert_segment(task(source), attempt="1", files=UNSYNCED)
    assert (entry.status, entry.target) == ("failed", "")
    assert entry.source_size == len(data)
    assert entry.cpu_seconds > 0
    assert words in entry.error
    assert str(source / NAME) in entry.error
    assert list(files(source.with_name("out-0"))) == [note_path(source, 0).name]
    assert read_note(source.with_name("out-0"), 0) == entry


@pytest.mark.parametrize("to_magic", [0, 1, 2])
@pytest.mark.parametrize(("number", "offset"), [(3, 2), (3, 7000), (5, 3)])
def test_a_segment_with_a_wrong_offset_in_a_batch_gets_no_name(
    tmp_path: Path, to_magic: int, number: int, offset: int
) -> None:
    """No checksum covers it, and readers of the result would lose records."""
    batches = [bytearray(batch(n)) for n in (0, 1, 2, 4, 6, 8)]
    batches[number][:8] = offset.to_bytes(8, "big")
    source = segment(tmp_path / "topic-0", 0, *map(bytes, batches)).path().parent
    segment(source, 10, batch(10))
    entry = convert_segment(task(source, to_magic), attempt="1", files=UNSYNCED)
    at = number * len(batches[0])
    assert entry.status == "failed"
    assert entry.error.endswith(f"offsets do not rise, at byte {at}")


@pytest.mark.parametrize("to_magic", [1, 2])
def test_offsets_that_the_next_segment_has_too_are_written_once(
    tmp_path: Path, to_magic: int
) -> None:
    """A cleaner has merged two segments, and the log was copied meanwhile."""
    batches = [batch(n, magic=1) for n in range(9)]
    source = indexed_segment(tmp_path / "topic-0", 0, *batches[:6]).path().parent
    indexed_segment(source, 3, *batches[3:6])
    indexed_segment(source, 6, *batches[6:])
    for base in (0, 3, 6):
        entry = convert_segment(task(source, to_magic, base), attempt="1", files=UNSYNCED)
        assert (entry.status, entry.records) == ("converted", 3)
    with Log.open(tmp_path / "out-0") as log:
        found = [record.offset for one in log.segments for record in read(one.slice(0, one.size))]
    assert found == list(range(9))


def test_a_batch_that_goes_on_beyond_the_beginning_of_the_next_segment_is_whole(
    tmp_path: Path,
) -> None:
    source = segment(tmp_path / "topic-0", 0, batch(0, 1), batch(2, 3, 4, 5), batch(6, 7)).path()
    segment(source.parent, 4, batch(4, 5), batch(6, 7, 8))
    entry = convert_segment(task(source.parent), attempt="1", files=UNSYNCED)
    assert (entry.status, entry.records) == ("converted", 6)


def test_a_segment_is_not_converted_if_the_next_one_has_some_of_its_last_offsets(
    tmp_path: Path,
) -> None:
    batches = [batch(n) for n in range(9)]
    source = indexed_segment(tmp_path / "topic-0", 0, *batches[:6]).path().parent
    indexed_segment(source, 3, batches[3])
    indexed_segment(source, 6, *batches[6:])
    entry = convert_segment(task(source), attempt="1", files=UNSYNCED)
    assert entry.status == "failed"
    assert "offsets from 3 up to 6 are also in the next segment, which lacks some" in entry.error


def test_a_torn_end_of_the_last_segment_is_no_part_of_the_log(source: Path) -> None:
    with (source / NAME).open("ab") as file:
        file.write(batch(43)[:-5])
    assert convert_segment(task(source), attempt="1", files=UNSYNCED).status == "converted"


def test_a_target_that_differs_from_its_source_is_noticed(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = convert(MemoryRecords(batch(0, magic=1, timestamp=7)), 1)
    monkeypatch.setattr("downconvert.spark.jobs.convert.rewrite.convert", lambda *_, **__: other)
    entry = convert_segment(task(source), attempt="1", files=UNSYNCED)
    assert entry.status == "failed"
    assert "the record at offset 0 is not as it was" in entry.error
    assert list(files(source.with_name("out-0"))) == [note_path(source, 0).name]
    assert read_note(source.with_name("out-0"), 0) == entry


def test_a_record_too_large_to_be_held_is_compared_as_a_stream(source: Path) -> None:
    with (source / NAME).open("ab") as file:
        file.write(batch(43, size=200_000, codec=Codec.GZIP))
    entry = convert_segment(task(source, record_size_max=100_000), attempt="1", files=UNSYNCED)
    assert (entry.status, entry.verified) == ("converted", "stream")


def test_an_old_record_too_large_to_be_held_is_refused(source: Path) -> None:
    with (source / NAME).open("ab") as file:
        file.write(batch(43, size=200_000, magic=1))
    entry = convert_segment(
        task(source, to_magic=2, record_size_max=100_000), attempt="1", files=UNSYNCED
    )
    assert entry.status == "failed"
    assert "record_size_max" in entry.error
