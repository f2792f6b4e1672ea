"""Prints as JSON how much this process grows while it converts a segment.

python -m tests.downconvert.conversion.grown SEGMENT TO_MAGIC POLICY {exact,estimate,convert}"""

import json
import re
import resource
import sys
from dataclasses import replace
from pathlib import Path

from downconvert import ConversionPolicy, LazyDownConvertRecords, convert
from records import FileRecords, MemoryRecords, Record, build
from records.units import KiB, MiB

ROOM = 64 * MiB  # of address space beside what is taken: less than any of the bombs holds
POLICIES = {
    "default": ConversionPolicy(),
    "kafka": ConversionPolicy.kafka(),
    "none": ConversionPolicy(recode=dict.fromkeys(("gzip", "snappy", "lz4", "zstd"), "none")),
}


class Discard:
    def __init__(self) -> None:
        self.taken = 0

    def write(self, data: memoryview) -> int:
        self.taken += len(data)
        return len(data)


def memory(name: str) -> int:
    """A line of this process's status, in bytes: VmRSS, VmHWM (its peak), VmSize (addresses)."""
    status = Path("/proc/self/status").read_text()
    return int(re.search(rf"{name}:\s+(\d+) kB", status)[1]) * KiB


def warm_up() -> None:
    """Loads the codecs' libraries, which is not what is measured."""
    for codec in range(5):
        batch = build([Record(offset=0, timestamp=0, value=b"v" * 100)], magic=2, codec=codec)
        for policy in POLICIES.values():
            try:
                for _ in convert(MemoryRecords(batch), 1, 0, policy):
                    pass
            except Exception:
                assert codec == 4, "only zstd is refused"


def main(path: str, to_magic: str, policy_name: str, how: str) -> None:
    warm_up()
    limit = memory("VmSize") + ROOM
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    policy, channel, stats = POLICIES[policy_name], Discard(), None
    idle = memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    with FileRecords.open(path) as log:
        if how == "convert":
            for piece in convert(log, int(to_magic), 0, policy):
                channel.write(piece)
        else:
            policy = replace(policy, size=how)
            send = LazyDownConvertRecords(log, int(to_magic), 0, policy).to_send()
            while not send.completed:
                send.write_to(channel)
            stats = send.stats
    print(
        json.dumps(
            {
                "grown": memory("VmHWM") - idle,
                "bytes": channel.taken,
                "buffers": stats.peak_buffer_bytes if stats else None,
                "records": stats.records_converted if stats else None,
            }
        )
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
