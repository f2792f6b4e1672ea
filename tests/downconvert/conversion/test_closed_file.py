"""A send whose file is closed under it fails, and never sends what another file holds."""

import os
import select
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from downconvert import ConversionPolicy, LazyDownConvertRecords, LazyRecodedRecords
from records import ClosedRecordsError, Codec, FileRecords, Record, build
from records.units import KiB, MiB

from .channels import Everything, sent
from .ways import RUNS_ONCE

pytestmark = RUNS_ONCE

POLICIES = {
    "exact": ConversionPolicy(),
    "estimate": ConversionPolicy(size="estimate"),
    "read_committed": ConversionPolicy(isolation="read_committed"),
    "recompressed": ConversionPolicy(recode={"lz4": "gzip"}),
}
MADE_BEFORE = set(POLICIES) - {"estimate"}  # what these have to compress is held until it is sent
SENDS = [*POLICIES, "as it is", "in another codec"]


def segment(content: bytes, codec: Codec) -> bytes:
    """Batches of the same sizes, whatever their content."""
    return b"".join(
        build(
            [Record(offset=10 * n + i, timestamp=0, value=content * 500) for i in range(10)],
            magic=2,
            codec=codec,
        )
        for n in range(24)
    )


def send_of(records: FileRecords, kind: str):
    if kind == "as it is":
        return records.to_send()
    if kind == "in another codec":
        return LazyRecodedRecords(records, {"lz4": "gzip"}).to_send()
    return LazyDownConvertRecords(records, 1, policy=POLICIES[kind]).to_send()


@pytest.mark.parametrize("kind", SENDS)
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
@pytest.mark.parametrize("is_direct", [False, True])
@pytest.mark.parametrize("is_begun", [False, True])
def test_a_send_whose_file_is_closed_fails_and_reads_no_other_file(
    tmp_path: Path, kind: str, codec: Codec, is_direct: bool, is_begun: bool
) -> None:
    ours, others = tmp_path / "ours.log", tmp_path / "others.log"
    ours.write_bytes(segment(b"o", codec))
    others.write_bytes(segment(b"X", codec))
    records = FileRecords.open(ours)
    part = records.slice(0, records.size)
    expected = sent(send_of(part, kind))
    send = send_of(part, kind)
    path = tmp_path / "sent"
    with path.open("wb", buffering=0) as file:
        channel = file if is_direct else Everything()
        if is_begun:
            send.write_to(channel)
        number = records.fileno()
        records.close()
        other = os.open(others, os.O_RDONLY)
        try:
            assert other == number
            for _ in range(2):  # it fails for good
                if codec is Codec.NONE or not (is_begun or kind in MADE_BEFORE):
                    with pytest.raises(ClosedRecordsError, match=r"closed: .*ours\.log"):
                        write_all(send, channel)
                else:  # messages that were made before may be all that is left
                    with suppress(ClosedRecordsError):
                        write_all(send, channel)
        finally:
            os.close(other)
    got = path.read_bytes() if is_direct else bytes(channel.taken)
    assert len(got) == send.size - send.remaining
    assert expected.startswith(got)


def write_all(send, channel) -> None:
    while not send.completed:
        send.write_to(channel, 4096)


@pytest.mark.parametrize("kind", ["exact", "estimate"])
def test_planning_with_a_closed_file_is_an_error(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(segment(b"o", Codec.NONE))
    records = FileRecords.open(path)
    part = records.slice(0, records.size)
    records.close()
    with pytest.raises(ClosedRecordsError):
        LazyDownConvertRecords(part, 1, policy=POLICIES[kind])


def test_a_close_does_not_free_a_descriptor_that_a_call_of_the_kernel_reads(
    tmp_path: Path,
) -> None:
    """The kernel works without the interpreter's lock, so that another thread may close the file
    and open another one meanwhile."""
    path = tmp_path / "a.log"
    path.write_bytes(segment(b"o", Codec.NONE))
    records = FileRecords.open(path)
    number, inode = records.fileno(), path.stat().st_ino
    lazy = LazyDownConvertRecords(records.slice(0, records.size), 1)
    channel = Everything()
    sent(lazy.to_send(), channel)
    send = lazy.to_send()
    reader, writer = os.pipe()
    got = bytearray()

    def write() -> None:
        with os.fdopen(writer, "wb", buffering=0) as pipe, suppress(ClosedRecordsError):
            while not send.completed:
                send.write_to(pipe, send.size)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        while select.select([], [writer], [], 0)[1]:  # then it waits for room, in a call
            time.sleep(0.001)
        records.close()
        assert os.fstat(number).st_ino == inode
    finally:
        while piece := os.read(reader, MiB):
            got += piece
        thread.join()
        os.close(reader)
    assert len(got) > 64 * KiB  # what a pipe holds
    assert channel.taken.startswith(got)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(number)


@pytest.mark.parametrize("kind", ["exact", "recompressed", "in another codec"])
@pytest.mark.parametrize("steps_before", [1, 10])
def test_a_file_that_is_closed_amid_planning_is_an_error_and_no_damage(
    tmp_path: Path, kind: str, steps_before: int
) -> None:
    """A shorter response would look like damage in the log."""
    path = tmp_path / "a.log"
    path.write_bytes(segment(os.urandom(200), Codec.LZ4) * 2)
    records = FileRecords.open(path)
    part = records.slice(0, records.size)
    steps = (
        LazyRecodedRecords.in_steps(part, {"lz4": "gzip"})
        if kind == "in another codec"
        else LazyDownConvertRecords.in_steps(part, 1, 0, POLICIES[kind])
    )
    for _ in range(steps_before):
        next(steps)
    records.close()
    with pytest.raises(ClosedRecordsError):
        list(steps)
