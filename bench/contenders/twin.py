"""Converts fetches with the reference, in a process of its own, because a process chooses its
kernel once."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Final

from bench.measuring.rounds import Fetch, Round
from downconvert import ConversionPolicy

from .ours import Ours

OPTIONS: Final = (
    "chunk_size",
    "size",
    "compression_level",
)  # of the policy, all that benchmarks set


def reference_round(
    to_magic: int, segment: Path, fetches: Sequence[Fetch], policy: ConversionPolicy
) -> Round:
    """One round of the reference, with a CRC of all sent bytes."""
    options = {name: getattr(policy, name) for name in OPTIONS}
    options["recode"] = dict(policy.recode)
    question = json.dumps([to_magic, str(segment), fetches, options])
    response = subprocess.run(
        (sys.executable, "-m", __spec__.name),
        input=question,
        env={**os.environ, "LAZY_DOWNCONVERT_BACKEND": "reference"},
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return Round(**json.loads(response.stdout))


def main() -> None:
    to_magic, segment, fetches, options = json.load(sys.stdin)
    ours = Ours(to_magic, Path(segment), fetches, ConversionPolicy(**options))
    checked = ours.checked_round()
    print(json.dumps(asdict(replace(ours.round(), crc=checked.crc))))


if __name__ == "__main__":
    main()
