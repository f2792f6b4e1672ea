"""Records become Parquet by topic and date; the same run twice is the same once, and what is in an
archive stays there."""

import shutil
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from downconvert.spark.jobs.export import export_directory, export_noted
from downconvert.spark.jobs.export.export_manifest import FOLDER
from downconvert.spark.jobs.jobs import JobError
from downconvert.storage.names import Kind, file_name
from records import Codec
from tests.downconvert.spark.exporting import exported_archive
from tests.downconvert.storage.logs import batch, segment

DAY = 86_400_000  # milliseconds


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "logs"
    path.mkdir()
    segment(path / "a-0", 0, batch(0, 1, timestamp=DAY), batch(2, timestamp=3 * DAY))
    segment(path / "b-0", 0, batch(0, magic=0), batch(1, codec=Codec.GZIP, timestamp=DAY))
    return path


def folders(target: Path) -> set[str]:
    return {
        str(path.parent.relative_to(target))
        for path in target.rglob("*.parquet")
        if not path.name.startswith(".")
    }


def there(frame: DataFrame) -> list[str]:
    return sorted(f"{row.topic}-{row.partition}:{row.offset}" for row in frame.collect())


WHOLE = ["a-0:0", "a-0:1", "a-0:2", "b-0:0", "b-0:1"]


def test_records_are_in_folders_by_topic_and_date_and_twice_is_once(
    spark: SparkSession, source: Path, tmp_path: Path
) -> None:
    target = tmp_path / "lake"
    (target / f"{export_directory.STAGING}1" / "topic=a").mkdir(parents=True)  # of one that died
    for _ in range(2):
        frame = exported_archive(spark, [str(source)], str(target))
        assert there(frame) == WHOLE
    assert not list(target.glob(f"{export_directory.STAGING}*"))
    assert folders(target) == {
        "topic=a/date=1970-01-02",
        "topic=a/date=1970-01-04",
        "topic=b/date=1970-01-02",
        "topic=b/date=__HIVE_DEFAULT_PARTITION__",
    }
    found = {(row.topic, row.offset): row for row in frame.collect()}
    assert found["b", 0].date is None
    assert bytes(found["a", 2].value) == b"2 2 2 2 2 "


def test_exported_records_that_retention_deleted_stay_and_new_ones_are_added(
    spark: SparkSession, source: Path, tmp_path: Path
) -> None:
    target = str(tmp_path / "lake")
    assert there(exported_archive(spark, [str(source)], target)) == WHOLE
    segment(source / "a-0", 3, batch(3, 4, timestamp=DAY))  # on a day that is there
    segment(source / "007-0", 0, batch(0, timestamp=DAY))  # a topic that reads like a number
    (source / "a-0" / file_name(0, Kind.LOG)).unlink()
    for _ in range(2):
        frame = exported_archive(spark, [str(source)], target)
        assert there(frame) == sorted([*WHOLE, "007-0:0", "a-0:3", "a-0:4"])
    shutil.rmtree(source / "b-0")
    frame = exported_archive(spark, [str(source)], target, topics=["a"])
    assert there(frame) == sorted([*WHOLE, "007-0:0", "a-0:3", "a-0:4"])
    (source / "a-0" / file_name(3, Kind.LOG)).unlink()
    segment(source / "a-0", 9, batch(9, timestamp=DAY))
    with pytest.warns(RuntimeWarning, match="offsets 5 up to 9 were deleted before"):
        exported_archive(spark, [str(source)], target)


def test_an_older_copy_adds_what_is_not_there(
    spark: SparkSession, source: Path, tmp_path: Path
) -> None:
    target, late = str(tmp_path / "lake"), tmp_path / "late"
    late.mkdir()
    segment(late / "b-0", 1, batch(1, timestamp=DAY))
    assert there(exported_archive(spark, [str(late)], target)) == ["b-0:1"]
    assert there(exported_archive(spark, [str(source)], target)) == WHOLE


def test_a_run_that_died_between_its_files_and_its_note_is_made_up_for(
    spark: SparkSession, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "a lake"

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("os.sync", die)
        with pytest.raises(KeyboardInterrupt):
            exported_archive(spark, [str(source)], str(target))
    lost = next(iter((target / "topic=a" / "date=1970-01-02").glob("part-*")))
    lost.unlink()  # the machine died, too
    (target / FOLDER).mkdir(exist_ok=True)
    (target / FOLDER / "torn.json").write_text('{"version": 1, "isol')
    # Only of one topic: the other's files are not vouched for by that.
    assert there(exported_archive(spark, [str(source)], str(target), topics=["a"])) == WHOLE
    for _ in range(2):
        assert there(exported_archive(spark, [str(source)], str(target))) == WHOLE
    notes = export_directory.DirectoryNotes(target).read("read_uncommitted")
    assert len(notes.files) == len(list(target.rglob("part-*.parquet")))


def test_damage_ends_a_run_or_is_left_out_and_is_looked_at_again(
    spark: SparkSession, source: Path, tmp_path: Path
) -> None:
    target = tmp_path / "a lake"
    good = batch(1, 2, timestamp=DAY)
    flipped = good[:-2] + bytes([good[-2] ^ 1]) + good[-1:]  # in a value
    log = source / "b-0" / file_name(0, Kind.LOG)
    log.write_bytes(batch(0, timestamp=DAY) + flipped + batch(3, timestamp=DAY))
    # It is the second segment of the task.
    words = f"export: {log}: .* at byte [0-9]+; skip_damaged .--skip-damaged. leaves it out$"
    with pytest.raises(JobError, match=words):
        exported_archive(spark, [str(source)], str(target))
    assert not folders(target)
    found = there(exported_archive(spark, [str(source)], str(target), skip_damaged=True))
    assert found == ["a-0:0", "a-0:1", "a-0:2", "b-0:0", "b-0:3"]
    log.write_bytes(batch(0, timestamp=DAY) + good + batch(3, timestamp=DAY))
    found = there(exported_archive(spark, [str(source)], str(target)))
    assert found == [*WHOLE[:3], "b-0:0", "b-0:1", "b-0:2", "b-0:3"]


def test_damage_after_the_last_good_batch_is_not_skipped(
    spark: SparkSession, source: Path, tmp_path: Path
) -> None:
    target = str(tmp_path / "lake")
    exported_archive(spark, [str(source)], target)
    with (source / "a-0" / file_name(0, Kind.LOG)).open("ab") as file:
        file.write(b"\xff" * 200)
    with pytest.raises(JobError, match="export: "):
        exported_archive(spark, [str(source)], target)


def test_another_cluster_or_a_topic_made_anew_is_refused(
    spark: SparkSession, source: Path, tmp_path: Path
) -> None:
    target = str(tmp_path / "lake")
    meta, topic = source / "meta.properties", source / "a-0" / "partition.metadata"
    meta.write_text("version=0\ncluster.id=one\n")
    topic.write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ")
    exported_archive(spark, [str(source)], target)
    topic.write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAg")
    with pytest.raises(JobError, match="a was deleted and recreated"):
        exported_archive(spark, [str(source)], target)
    meta.write_text("version=0\ncluster.id=two\n")
    with pytest.raises(JobError, match="of the cluster one, and these logs are of two"):
        exported_archive(spark, [str(source)], target)


def test_nothing_is_read_where_nothing_is_new(
    spark: SparkSession, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exported_archive(spark, [str(source)], str(tmp_path / "lake"))
    monkeypatch.setattr(export_noted, "write_records", None)
    assert there(exported_archive(spark, [str(source)], str(tmp_path / "lake"))) == WHOLE
