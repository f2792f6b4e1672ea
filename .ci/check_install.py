"""Checks an installed lazy-downconvert as a user meets it, with nothing but the standard library.

    python check_install.py [--kernel native|reference]

It runs in a directory that has a storage.py, a broker.py and a cli.py of its own, as projects have
that embed the library: each of them fails when it is imported."""

import json
import os
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

OTHERS = ("storage", "broker", "cli", "gateway", "pipeline")
SEGMENT = "00000000000000000000.log"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
EMBEDDED = """
import records, downconvert, simulator
from downconvert import LazyDownConvertRecords, storage
from records import FileRecords
with FileRecords.open("made/{segment}") as log:
    lazy = LazyDownConvertRecords(log, to_magic=1)
    send, sent = lazy.to_send(), bytearray()
    class Sink:
        def write(self, data): sent.extend(data); return len(data)
    while not send.completed:
        send.write_to(Sink())
    assert len(sent) == lazy.size > 0
print(records.backend.NAME)
"""


def run(directory: Path, *command: str) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    ran = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True)
    if ran.returncode:
        sys.exit(f"{' '.join(command)}: exit code {ran.returncode}\n{ran.stdout}{ran.stderr}")
    return ran


def main(kernel: str) -> None:
    script = str(Path(sysconfig.get_path("scripts")) / "downconvert")
    with tempfile.TemporaryDirectory() as name:
        here = Path(name)
        for other in OTHERS:
            (here / f"{other}.py").write_text('raise ImportError("this is not the one you want")\n')
        version = run(here, script, "--version")
        assert f"kernel: {kernel}\n" in version.stdout, version.stdout
        assert not version.stderr, version.stderr
        for codec in CODECS:
            made = f"made/{codec}"
            noted = run(here, script, "generate", made, f"codec={codec},size=256KiB,seed=1").stderr
            assert ("runs on the Python reference" in noted) == (kernel == "reference"), noted
            old = f"{codec}.log"
            run(here, script, "convert", f"{made}/{SEGMENT}", old, "--to-magic", "1")
            lines = run(here, script, "dump", "--json", old).stdout.splitlines()
            dumped = [json.loads(line) for line in lines]
            records = [line for line in dumped if line["type"] == "record"]
            assert len(records) > 100, (codec, len(records))
        embedded = EMBEDDED.format(segment=f"none/{SEGMENT}")
        for command in (["-c", embedded], ["-m", "downconvert", "--help"]):
            run(here, sys.executable, *command)
        assert run(here, sys.executable, "-c", embedded).stdout.split() == [kernel]
        for command in ("serve .", "spark audit ."):
            ran = subprocess.run(
                [script, *command.split()], cwd=here, capture_output=True, text=True
            )
            assert "Traceback" not in ran.stderr, ran.stderr
            assert "pip install 'lazy-downconvert[" in ran.stderr, ran.stderr
    print(f"{kernel} kernel, Python {sys.version.split()[0]}: works\n{version.stdout}")


if __name__ == "__main__":
    main(sys.argv[2] if sys.argv[1:2] == ["--kernel"] else "native")
