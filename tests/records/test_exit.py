"""A process ends cleanly while its daemon threads are inside the kernel.

If the kernel calls back into Python, the thread must not be unwound through the kernel's frames.
That would abort the process (SIGABRT)."""

import subprocess
import sys

RUNS = 9  # whether a thread is at the wrong place is a matter of chance

PARENT = """
import io, os, sys, threading
from downconvert import LazyDownConvertRecords
from records import Codec, MemoryRecords, Record, build

rows = [Record(offset=i, timestamp=0, value=b"%d and %d" % (i, i * i)) for i in range(1000)]
log = MemoryRecords(build(rows, magic=2, codec=Codec.ZSTD))
null = open(os.devnull, "wb", buffering=0)
turns = [
    lambda: LazyDownConvertRecords(log, 1).to_send().write_to(null, 1 << 20),  # by the kernel
    lambda: LazyDownConvertRecords(log, 1).to_send().write_to(io.BytesIO()),  # by Python
    lambda: repr(rows[0]),
]
begun = [threading.Event() for _ in turns]

def work(turn, has_begun):
    while True:
        turn()
        has_begun.set()

def run():
    for turn, has_begun in zip(turns, begun):
        threading.Thread(target=work, args=(turn, has_begun), daemon=True).start()
    for has_begun in begun:
        has_begun.wait()

for _ in range(int(sys.argv[1])):
    child = os.fork()
    if not child:
        run()
        break  # to the end of the interpreter, as every process
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


def test_daemon_threads_that_recompress_to_gzip_do_not_abort_the_process_at_its_end() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PARENT, str(RUNS)], capture_output=True, text=True, timeout=60
    )
    assert (done.stdout.split(), done.stderr) == (["0"] * RUNS, "")
