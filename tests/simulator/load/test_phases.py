"""The phases of a conversion."""

from dataclasses import astuple, replace
from pathlib import Path

import pytest

from records.units import KiB
from simulator import Workload
from simulator.load.options import Group
from simulator.load.phases import Shares, shares_of
from tests.simulator.loads import SMALL, topic


@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_shares_make_a_whole(tmp_path: Path, codec: str) -> None:
    options = replace(SMALL, workload=Workload(codec=codec, size=512 * KiB), partitions=1)
    found = shares_of(topic(tmp_path, options), options)
    assert sum(astuple(found)) == pytest.approx(1)
    assert found.convert > 0
    assert (found.decompress > 0) is (found.compress > 0) is (codec == "gzip")


def test_without_conversion_there_are_no_shares(tmp_path: Path) -> None:
    options = replace(SMALL, clients=(Group("3.x", 1),))
    assert shares_of(tmp_path, options) == Shares(0, 0, 0, 0)
