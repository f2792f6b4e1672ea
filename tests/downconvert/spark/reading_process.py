"""One task in a process of its own, as a worker of Spark's: what it read, and the memory it took.

`python -m tests.downconvert.spark.reading_process DIRECTORY [OPTION=VALUE ...]` prints JSON."""

import json
import sys
from pathlib import Path

from downconvert.spark.options.options import Options
from downconvert.spark.options.schemas import schema_of
from downconvert.spark.read.reader import SegmentReader
from records.units import KiB


def peak_memory() -> int:
    """Bytes. Not `ru_maxrss`, which a process inherits from the one that started it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return KiB * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def main() -> None:
    path, *given = sys.argv[1:]
    options = Options.parse({"path": path} | dict(text.split("=", 1) for text in given))
    source = SegmentReader(options, schema_of(options))
    records = corrupt = largest = 0
    for task in source.partitions():
        for batch in source.read(task):
            largest = max(largest, batch.nbytes)
            records += batch.num_rows
            if options.corrupt_column in batch.schema.names:
                corrupt += batch.num_rows - batch.column(options.corrupt_column).null_count
    peak = peak_memory()
    print(json.dumps({"records": records, "corrupt": corrupt, "peak": peak, "largest": largest}))


if __name__ == "__main__":
    main()
