"""The rules of kernels: entries that are taken, dropped, or need a decision."""

from types import ModuleType

import pytest

from records.formats import BATCH_HEADER_SIZE, CONTROL, LOG_APPEND_TIME, TRANSACTIONAL, V0, V1, V2
from records.kernel import ROW_SIZE, UNKNOWN, Outcome
from records.record import ROW
from tests.damage import damaged

from .examples import EVERY_CODEC, GOOD, batch, message, record, varint
from .kernels import each_kernel
from .tracing import Entered, Job, trace

GZIP = batch(record(0), attributes=1)
MARKER = batch(record(0), attributes=CONTROL | TRANSACTIONAL)
TRANSACTION = batch(record(0), attributes=TRANSACTIONAL)
MESSAGE_SIZE = {V0: 28, V1: 36}  # with a key and a value of a byte
SKIPS = (False,)


def outcome_of(kernel: ModuleType, job: Job, log: bytes, *, allow: bool = False) -> Outcome:
    """The outcome of one call with a window of the whole log."""
    transcoder = kernel.Transcoder(
        job.to_magic, job.first_offset, job.pass_codecs, job.stop_transactional
    )
    if allow:
        transcoder.accept_next_entry()
    window = (log, 0, len(log), len(log))
    if job.work == "columns":
        _, _, outcome = transcoder.columns(*window, bytearray(1000), 0, 1000)
    else:
        _, _, outcome = transcoder.transcode(*window, bytearray(1000), 0, 1000)
    return Outcome(outcome)


# --- entries that pass


@each_kernel
def test_entries_that_are_old_enough_are_copied_unchanged(kernel: ModuleType) -> None:
    log = message(V0, 5) + message(V1, 6, attributes=1) + message(V0, 7, timestamp=-9)
    found = trace(kernel.Transcoder, Job(to_magic=V1, first_offset=100), log)
    assert found.output == log
    assert found.state[0] == (0, 0, len(log), 0)


@each_kernel
def test_a_conversion_to_v2_copies_everything(kernel: ModuleType) -> None:
    log = GOOD + MARKER + GZIP + TRANSACTION + message(V0, 5)
    job = Job(to_magic=V2, first_offset=100, stop_transactional=True)
    assert trace(kernel.Transcoder, job, log).output == log


@each_kernel
@pytest.mark.parametrize("codec", range(8))
def test_a_codec_outside_pass_codecs_needs_a_decision(kernel: ModuleType, codec: int) -> None:
    log = message(V1, 0, attributes=codec)
    for allowed in range(8):
        outcome = outcome_of(kernel, Job(pass_codecs=1 << allowed), log)
        assert outcome == (Outcome.END if codec == allowed else Outcome.BATCH)
    assert outcome_of(kernel, Job(pass_codecs=0), log, allow=True) == Outcome.END


# --- batches that are dropped or asked about


@each_kernel
@pytest.mark.parametrize("log", [batch(), batch(last_offset_delta=7), MARKER, batch(base_offset=9)])
def test_empty_batches_and_control_batches_are_dropped(kernel: ModuleType, log: bytes) -> None:
    found = trace(kernel.Transcoder, Job(), log)
    assert (found.outcome, found.reached, found.produced) == (Outcome.END, len(log), 0)
    assert found.state[0] == (0, 0, 0, 0)


@each_kernel
def test_a_batch_below_the_first_offset_is_dropped_unread(kernel: ModuleType) -> None:
    """More records than bytes are damage only in a batch that is entered."""
    for count in 2, 2**31 - 1:
        log = batch(b"\xff" * 9, record(1), last_offset_delta=4, records_count=count)
        found = trace(kernel.Transcoder, Job(first_offset=5), log)
        assert (found.outcome, found.produced) == (Outcome.END, 0)


@each_kernel
def test_dropped_entries_need_not_be_in_the_window(kernel: ModuleType) -> None:
    transcoder = kernel.Transcoder(V1, 5, EVERY_CODEC, False)
    window = (GOOD, 0, BATCH_HEADER_SIZE, len(GOOD))
    consumed, _, outcome = transcoder.measure(*window, 100)
    assert (consumed, outcome) == (len(GOOD), Outcome.END)


@each_kernel
@pytest.mark.parametrize("work", ["transcode", "columns"])
@pytest.mark.parametrize("allow", [False, True])
@pytest.mark.parametrize("log", [GZIP, message(V1, 0, attributes=1)])
def test_compressed_batches_always_need_a_decision(
    kernel: ModuleType, log: bytes, allow: bool, work: str
) -> None:
    job = Job(to_magic=V0, work="columns" if work == "columns" else "transcode")
    assert outcome_of(kernel, job, log, allow=allow) == Outcome.BATCH


@each_kernel
@pytest.mark.parametrize("log", [MARKER, TRANSACTION])
def test_transactional_batches_need_a_decision_with_stop_transactional(
    kernel: ModuleType, log: bytes
) -> None:
    assert outcome_of(kernel, Job(), log) == Outcome.END
    wanted = Job(stop_transactional=True)
    assert outcome_of(kernel, wanted, log) == Outcome.BATCH
    assert outcome_of(kernel, wanted, log, allow=True) == Outcome.END


@each_kernel
def test_columns_read_control_batches_only_if_allowed(kernel: ModuleType) -> None:
    assert outcome_of(kernel, Job("columns"), MARKER) == Outcome.BATCH
    assert trace(kernel.Transcoder, Job("columns"), MARKER).produced == ROW_SIZE


@each_kernel
@pytest.mark.parametrize(
    ("base_offset", "delta", "is_below"), [(-(2**63), -1, True), (2**63 - 1, 1, False)]
)
def test_the_last_offset_of_a_batch_does_not_wrap(
    kernel: ModuleType, base_offset: int, delta: int, is_below: bool
) -> None:
    """Its records are at the fetch offset, but a batch that ends below it is not entered."""
    log = batch(record(0), base_offset=base_offset, last_offset_delta=delta)
    job = Job(to_magic=V1, first_offset=base_offset)
    assert trace(kernel.Transcoder, job, log).produced == (0 if is_below else MESSAGE_SIZE[V1])


@each_kernel
def test_a_long_varint_before_the_key_is_not_cut(kernel: ModuleType) -> None:
    """The key is made so that the record is whole, too, without the ninth byte of the varints."""
    size = 10_000
    cut = (2 * size & 0x3FFF) >> 1
    value_size = size - cut - 3 + 2  # up to the header count
    fake = bytes([2 * value_size & 0x7F | 0x80, 2 * value_size >> 7 & 0x7F | 0x80, 0])
    key = b"k" * cut + fake + b"k" * (size - cut - 3)
    log = batch(record(100_000, key, timestamp_delta=100_000), last_offset_delta=100_000)
    [row] = ROW.iter_unpack(trace(kernel.Transcoder, Job("columns"), log).output)
    assert (row[0], row[1], row[4], row[6]) == (100_000, 101_000, size, 1)


@each_kernel
def test_accept_next_entry_lasts_for_one_entry(kernel: ModuleType) -> None:
    log = TRANSACTION + TRANSACTION
    transcoder = kernel.Transcoder(V1, 0, EVERY_CODEC, True)
    transcoder.accept_next_entry()
    for _ in range(2):  # it lasts until the entry has been passed
        no_progress = transcoder.measure(log, 0, BATCH_HEADER_SIZE - 1, len(log), 100)
        assert no_progress == (0, 0, Outcome.SOURCE)
    consumed, _, outcome = transcoder.measure(log, 0, len(log), len(log), 100)
    assert (consumed, outcome) == (len(TRANSACTION), Outcome.BATCH)


@each_kernel
def test_accept_next_entry_within_a_batch_is_for_the_entry_after_it(kernel: ModuleType) -> None:
    log = GOOD + TRANSACTION
    transcoder = kernel.Transcoder(V1, 0, EVERY_CODEC, True)
    consumed, _, outcome = transcoder.measure(log, 0, len(log), len(log), 1)
    assert (outcome, transcoder.in_batch) == (Outcome.TARGET, True)
    transcoder.accept_next_entry()
    rest = len(log) - consumed
    assert transcoder.measure(log, consumed, len(log), rest, 10**6)[::2] == (rest, Outcome.END)


@each_kernel
@pytest.mark.parametrize("withdraw", ["leave", "enter_batch", "enter_entries"])
def test_entering_and_leaving_withdraw_accept_next_entry(kernel: ModuleType, withdraw: str) -> None:
    transcoder = kernel.Transcoder(V1, 0, EVERY_CODEC, True)
    transcoder.accept_next_entry()
    if withdraw == "enter_batch":
        transcoder.enter_batch(GOOD, 0)
    elif withdraw == "enter_entries":
        transcoder.enter_entries(V1, 0, None)
    transcoder.leave()
    log = TRANSACTION
    assert transcoder.measure(log, 0, len(log), len(log), 100) == (0, 0, Outcome.BATCH)


# --- what is written


@each_kernel
@pytest.mark.parametrize("to_magic", [V0, V1])
def test_each_message_takes_its_key_its_value_and_a_fixed_overhead(
    kernel: ModuleType, to_magic: int
) -> None:
    log = batch(record(0, b"key", b"value"), record(1, None, None), record(2, b"", b""))
    size = 3 * (MESSAGE_SIZE[to_magic] - 2) + len(b"keyvalue")
    for room in range(size + 1):
        transcoder = kernel.Transcoder(to_magic, 0, EVERY_CODEC, False)
        window = (log, 0, len(log), len(log))
        _, produced, outcome = transcoder.transcode(*window, bytearray(room), 0, room)
        assert produced <= room
        assert outcome == (Outcome.END if room == size else Outcome.TARGET)


@each_kernel
def test_dropped_records_need_no_room_in_the_target(kernel: ModuleType) -> None:
    transcoder = kernel.Transcoder(V1, 1, EVERY_CODEC, False)
    log = batch(record(0), record(1))
    consumed, _, outcome = transcoder.transcode(log, 0, len(log), len(log), bytearray(), 0, 0)
    assert (consumed, outcome) == (BATCH_HEADER_SIZE + len(record(0)), Outcome.TARGET)


@each_kernel
def test_v0_entries_become_v1_ones_without_a_timestamp(kernel: ModuleType) -> None:
    job = Job(entered=Entered(to_magic=V1))
    found = trace(kernel.Transcoder, job, message(V0, 3))
    assert found.output == message(V1, 3, timestamp=-1)


@each_kernel
def test_the_append_time_attribute_of_inner_entries_is_ignored(kernel: ModuleType) -> None:
    entry = message(V1, 3, timestamp=7, attributes=LOG_APPEND_TIME)
    found = trace(kernel.Transcoder, Job(entered=Entered()), entry)
    assert found.output == message(V1, 3, timestamp=7)


@each_kernel
@pytest.mark.parametrize("magic", [V0, V1])
def test_the_append_time_of_a_wrapper_is_that_of_all_its_entries(
    kernel: ModuleType, magic: int
) -> None:
    job = Job(entered=Entered(append_time=555))
    found = trace(kernel.Transcoder, job, message(magic, 3, timestamp=-9))
    assert found.output == message(V1, 3, timestamp=555, attributes=LOG_APPEND_TIME)
    rows = trace(kernel.Transcoder, Job("columns", entered=Entered(append_time=555)), found.output)
    assert ROW.unpack(rows.output)[:3] == (3, 555, 1)


@each_kernel
def test_a_row_has_the_positions_of_all_fields(kernel: ModuleType) -> None:
    headers = [(b"h", b"x"), (b"", None)]
    log = batch(record(4, b"key", None, timestamp_delta=5, headers=headers), base_offset=10)
    row = ROW.unpack(trace(kernel.Transcoder, Job("columns"), log).output)
    assert row[:3] == (14, 1005, 0)
    key_at, key_size, value_at, value_size, headers_at, headers_size, headers_count = row[3:]
    assert log[key_at : key_at + key_size] == b"key"
    assert (value_at, value_size) == (key_at + 3 + 1, -1)
    assert log[headers_at:] == b"\x02h\x02x\x00\x01"
    assert (headers_size, headers_count) == (6, 2)


@each_kernel
@pytest.mark.parametrize("to_magic", [V0, V1])
@pytest.mark.parametrize("size", [-2, -5, -(2**31)])
def test_any_negative_size_of_a_key_or_value_is_null(
    kernel: ModuleType, size: int, to_magic: int
) -> None:
    """Kafka takes all of them for null, and writes -1 itself."""
    body = bytes(3) + varint(size) + varint(size) + varint(0)
    log = batch(varint(len(body)) + body)
    found = trace(kernel.Transcoder, Job(to_magic=to_magic), log).output
    assert (
        found
        == trace(kernel.Transcoder, Job(to_magic=to_magic), batch(record(0, None, None))).output
    )
    row = ROW.unpack(trace(kernel.Transcoder, Job("columns"), log).output)
    assert (row[4], row[6]) == (-1, -1)


@each_kernel
@pytest.mark.parametrize(("attributes", "kind"), [(0, 0), (LOG_APPEND_TIME, 1)])
def test_the_row_of_a_v1_message_has_its_own_timestamp_type(
    kernel: ModuleType, attributes: int, kind: int
) -> None:
    log = message(V1, 3, b"k", None, timestamp=-7, attributes=attributes)
    row = ROW.unpack(trace(kernel.Transcoder, Job("columns"), log).output)
    assert row == (3, -7, kind, 30, 1, len(log), -1, len(log), 0, 0)


@each_kernel
def test_the_row_of_a_v0_message_has_no_timestamp(kernel: ModuleType) -> None:
    row = ROW.unpack(trace(kernel.Transcoder, Job("columns"), message(V0, 3)).output)
    assert row[:3] == (3, -1, -1)


# --- wrappers


@each_kernel
@pytest.mark.parametrize("to_magic", [V0, V1])
def test_a_v1_wrapper_ends_at_a_gap_with_split_at_gaps(kernel: ModuleType, to_magic: int) -> None:
    body = [record(0), record(1), record(5), record(6)]
    entered = Entered(batch(*body), wrapper=True, split_at_gaps=True)
    found = trace(kernel.Transcoder, Job(to_magic=to_magic, entered=entered), b"".join(body))
    outcomes = [step[2] for step in found.steps if step[0]]
    first_of_last = 5 if to_magic == V1 else 0
    records = 2 if to_magic == V1 else 4
    assert found.state[1][:3] == (records, first_of_last, 6)
    assert (Outcome.GAP in outcomes) == (to_magic == V1)


@each_kernel
@pytest.mark.parametrize(
    ("wrapper", "split_at_gaps"), [(False, False), (False, True), (True, False)]
)
def test_gaps_do_not_matter_elsewhere(
    kernel: ModuleType, wrapper: bool, split_at_gaps: bool
) -> None:
    body = [record(0), record(5)]
    entered = Entered(batch(*body), wrapper=wrapper, split_at_gaps=split_at_gaps)
    found = trace(kernel.Transcoder, Job(entered=entered), b"".join(body))
    assert Outcome.GAP not in [step[2] for step in found.steps if len(step) > 2]
    assert found.state[1] == ((2, 0, 5, 1000) if wrapper else (0, -1, -1, -1))


@each_kernel
@pytest.mark.parametrize("trim", [False, True])
def test_decompressed_records_are_trimmed_with_trim(kernel: ModuleType, trim: bool) -> None:
    body = [record(0), record(1), record(2)]
    entered = Entered(batch(*body), wrapper=True, trim=trim)
    found = trace(kernel.Transcoder, Job(first_offset=1, entered=entered), b"".join(body))
    assert found.state[1][:3] == ((2, 1, 2) if trim else (3, 0, 2))


# --- the state between calls


@each_kernel
def test_in_batch_tells_whether_a_record_is_next(kernel: ModuleType) -> None:
    transcoder = kernel.Transcoder(V1, 0, EVERY_CODEC, False)
    assert not transcoder.in_batch
    log = batch(record(0), attributes=LOG_APPEND_TIME, max_timestamp=555) + GOOD
    transcoder.measure(log, 0, BATCH_HEADER_SIZE, len(log), 100)
    assert transcoder.in_batch
    assert transcoder.append_time == 555
    rest = BATCH_HEADER_SIZE + len(record(0))
    transcoder.measure(log, BATCH_HEADER_SIZE, rest, len(log) - BATCH_HEADER_SIZE, 100)
    assert not transcoder.in_batch
    assert transcoder.append_time is None
    transcoder.enter_batch(log, 0)
    assert transcoder.in_batch
    assert transcoder.append_time == 555
    transcoder.leave()
    assert not transcoder.in_batch
    assert transcoder.append_time is None


@each_kernel
def test_a_batch_without_records_is_read_at_once(kernel: ModuleType) -> None:
    transcoder = kernel.Transcoder(V1, 0, EVERY_CODEC, False)
    for count in (0, -1, -(2**31)):
        header = damaged(GOOD, field="records_count", to=count)
        transcoder.enter_batch(header, 0, True)
        assert not transcoder.in_batch
        assert transcoder.measure(b"?", 0, 1, 1, 100) == (0, 0, Outcome.END)


@each_kernel
def test_the_last_offset_and_the_wrapper_outlive_their_batch(kernel: ModuleType) -> None:
    transcoder = kernel.Transcoder(V1, 0, EVERY_CODEC, False)
    transcoder.enter_batch(GOOD, 0, True)
    transcoder.measure(record(0), 0, len(record(0)), UNKNOWN, 100)
    transcoder.leave()
    assert transcoder.last_offset == 0
    assert transcoder.wrapper[0] == 1
    transcoder.enter_batch(GOOD, 0, True)
    assert transcoder.last_offset == -1
    assert transcoder.wrapper[0] == 0


@each_kernel
def test_columns_do_not_count_in_totals(kernel: ModuleType) -> None:
    entered = Entered(GOOD, wrapper=True)
    found = trace(kernel.Transcoder, Job("columns", entered=entered), record(0) + record(1))
    assert found.state[:3] == ((0, 0, 0, 0), (0, -1, -1, -1), -1)


@each_kernel
def test_damage_is_available_until_the_next_call(kernel: ModuleType) -> None:
    transcoder = kernel.Transcoder(V1, 0, EVERY_CODEC, False)
    bad = bytes(20)
    assert transcoder.measure(bad, 0, 20, 20, 100) == (0, 0, Outcome.DAMAGE)
    assert transcoder.damage == ("entry is smaller than a message header", 0)
    assert transcoder.measure(bad, 0, 17, 20, 100) == (0, 0, Outcome.SOURCE)
    assert transcoder.damage is None


@each_kernel
def test_window_bytes_after_remaining_are_ignored(kernel: ModuleType) -> None:
    transcoder = kernel.Transcoder(V1, 0, EVERY_CODEC, False)
    log = GOOD + GOOD
    consumed, _, outcome = transcoder.measure(log, 0, len(log), len(GOOD), 1000)
    assert (consumed, outcome) == (len(GOOD), Outcome.END)
