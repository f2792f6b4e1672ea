"""A consumer's fetches through the log, and the expected responses."""

from pathlib import Path
from random import Random

from downconvert import eager
from records import Codec, FileRecords, Record, build
from simulator import Options
from simulator.fetch.plan import digest, make_plan
from tests.simulator.segments import batch, marker, written

SMALL = Options(max_bytes=1000)


def test_every_record_is_read_once_in_every_mode(tmp_path: Path) -> None:
    paths = [
        written(tmp_path, *(batch(range(at, at + 7), codec) for at in range(0, 70, 7)), name=name)
        for name, codec in (("a", Codec.NONE), ("b", Codec.GZIP), ("c", Codec.ZSTD))
    ]
    for mode in SMALL.modes:
        plan = make_plan(mode, paths, SMALL)
        assert plan.records == 210
        assert (plan.different, plan.broken) == (0, 0)
        assert {fetch.file for fetch in plan.fetches} == {0, 1, 2}


def test_eager_responses_are_planned_as_they_are_sent(tmp_path: Path) -> None:
    dice = Random(1)
    records = [Record(n, 1000, value=dice.randbytes(800)) for n in range(1000)]
    batches = [build(records[at : at + 20], magic=2, codec=Codec.GZIP) for at in range(0, 1000, 20)]
    path = written(tmp_path, *batches)
    options = Options(max_bytes=800_000)
    lazy = make_plan("lazy", [path], options)
    plan = make_plan("eager", [path], options)
    assert lazy.unlike_eager > 0  # it ends early
    with FileRecords.open(path) as log:
        for fetch, response in zip(plan.fetches, plan.responses, strict=True):
            data = eager(log.slice(fetch.position, fetch.size), 1, fetch.first_offset)
            assert (response.size, response.digest) == (len(data), digest(data))
            assert response.records == response.converted
    assert plan.records == 1000


def test_a_response_is_the_eager_conversion_of_its_fetch(tmp_path: Path) -> None:
    path = written(tmp_path, *(batch(range(at, at + 7)) for at in range(0, 70, 7)))
    plan = make_plan("lazy", [path], SMALL)
    assert len(plan.fetches) > 5
    with FileRecords.open(path) as log:
        for fetch, response in zip(plan.fetches, plan.responses, strict=True):
            data = eager(log.slice(fetch.position, fetch.size), 1, fetch.first_offset)
            assert (response.size, response.digest) == (len(data), digest(data))
            assert response.records == response.converted == 7
            assert response.filler == 0


def test_a_raw_response_is_the_bytes_of_the_log(tmp_path: Path) -> None:
    path = written(tmp_path, batch([0, 1]), marker(2))
    plan = make_plan("zero-copy", [path], SMALL)
    (response,) = plan.responses
    assert response.digest == digest(path.read_bytes())
    assert (response.size, response.records, response.converted) == (path.stat().st_size, 2, 0)


def test_under_kafkas_promise_a_consumer_fetches_cut_records_again(tmp_path: Path) -> None:
    path = written(tmp_path, *(batch(range(at, at + 50)) for at in range(0, 500, 50)))
    options = Options(max_bytes=20_000, policy="kafka")
    lazy = make_plan("lazy", [path], options)
    eager_plan = make_plan("eager", [path], options)
    assert lazy.records == eager_plan.records == 500
    assert len(lazy.fetches) > len(eager_plan.fetches)
    assert lazy.unlike_eager > 0
    assert (lazy.different, lazy.broken) == (0, 0)
    assert any(fetch.first_offset % 50 for fetch in lazy.fetches)  # in the middle of a batch


def test_filler_is_counted_and_not_read(tmp_path: Path) -> None:
    batches = [batch([at], Codec.GZIP) for at in range(10)]
    path = written(tmp_path, *batches, marker(10), marker(11))
    plan = make_plan("lazy", [path], Options(policy="kafka", to_magic=0))
    assert plan.records == 10
    assert sum(response.filler for response in plan.responses) > 0


def test_a_fetch_that_converts_to_nothing_is_skipped(tmp_path: Path) -> None:
    path = written(tmp_path, marker(0), marker(1), batch([2]), marker(3))
    for policy in ("default", "kafka"):
        plan = make_plan("lazy", [path], Options(max_bytes=1, policy=policy))
        assert len(plan.fetches) == 4
        assert plan.records == 1


def test_an_old_message_below_its_wrapper_is_read(tmp_path: Path) -> None:
    path = written(tmp_path, batch(range(5), Codec.GZIP, magic=1))
    assert make_plan("lazy", [path], Options(to_magic=0)).records == 5


def test_a_file_is_read_up_to_its_damage(tmp_path: Path) -> None:
    bad = bytearray(batch(range(7, 14)))
    bad[61] = 0x01  # the first record's size: -1
    good = [batch(range(7)), batch(range(14, 21))]
    paths = [
        written(tmp_path, good[0], bytes(bad), good[1], name="a.log"),
        written(tmp_path, *good, name="b.log"),
    ]
    for mode in SMALL.modes:
        for max_bytes in (1000, 100_000):
            plan = make_plan(mode, paths, Options(max_bytes=max_bytes))
            assert plan.records == 7 + 14
            assert list(plan.endings) == [0]
            assert plan.endings[0].why.startswith("negative record size, at byte ")


def test_a_refused_batch_ends_its_file_with_advice(tmp_path: Path) -> None:
    good = batch(range(7))
    path = written(tmp_path, good, batch([7], Codec.ZSTD), batch([8]))
    plan = make_plan("lazy", [path], Options(policy="kafka"))
    assert plan.records == 7
    (ending,) = plan.endings.values()
    assert ending.position == len(good)
    assert ending.why.startswith("zstd is refused for this client")
    assert ending.why.endswith("add recode=zstd:gzip")


def test_a_file_ends_at_the_same_place_in_every_mode(tmp_path: Path) -> None:
    path = written(tmp_path, batch(range(7)), batch([7], Codec.ZSTD), batch([8]))
    lazy = make_plan("lazy", [path], Options(policy="kafka"))
    assert make_plan("zero-copy", [path], SMALL).records == 9
    limited = make_plan("zero-copy", [path], SMALL, lazy.endings)
    assert limited.records == 7
    assert limited.endings == lazy.endings


def test_progress_tells_the_bytes_of_all_files(tmp_path: Path) -> None:
    paths = [written(tmp_path, batch(range(9)), batch(range(9, 18)), name=n) for n in "ab"]
    progress_bytes: list[int] = []
    make_plan("zero-copy", paths, SMALL, progress=progress_bytes.append)
    size = paths[0].stat().st_size
    assert progress_bytes == [size // 2, size, 3 * size // 2, 2 * size]
