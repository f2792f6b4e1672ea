"""An old fetch of several requests, between which the leader changes."""

import pytest

from records import Codec
from tests.downconvert.storage.logs import batch

from .test_fetching_steps import asked_for, body, fetch_response, offsets, part, run


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
@pytest.mark.parametrize("version", [1, 3])
@pytest.mark.parametrize(("second", "expected"), [((5, 6, 7), [5, 6, 7]), ((4, 5), [5, 6])])
def test_no_record_comes_twice_if_another_leader_has_other_batches(
    version: int, codec: Codec, second: tuple[int, ...], expected: list[int]
) -> None:
    """After an unclean election, the second request may find a batch that begins before its
    offset."""
    found, (_, again) = run(
        body(("t", 0, 5)),
        fetch_response(part(batch(5, 6, codec=codec))),
        fetch_response(part(batch(*second, codec=codec), high=8)),
        version=version,
    )
    assert asked_for(again)[0][2] == 7
    assert offsets(found.responses[0].partitions[0]) == expected
