"""The list of measurements."""

import subprocess
import sys

from bench.__main__ import HERE, measurements


def test_each_measurement_is_listed_with_its_question() -> None:
    found = measurements()
    assert found["bench.conversion"].startswith("How many times as fast as Kafka's own converter")
    assert not {"bench.__init__", "bench.__main__", "bench.setting_words"} & found.keys()
    assert all(len(question) > 20 for question in found.values())
    assert all((HERE / f"{name.removeprefix('bench.')}.py").is_file() for name in found)


def test_the_module_prints_the_list() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "bench"], capture_output=True, text=True, check=True, timeout=60
    )
    assert all(name in run.stdout for name in measurements())
