"""Which buffers wait for the next conversion: few of each size, and no large ones."""

from downconvert.conversion.buffers import SIZE_MAX, SPARES_MAX, release, take

from .ways import RUNS_ONCE

pytestmark = RUNS_ONCE

SIZE = 12_347  # of no other conversion


def kept(size: int) -> int:
    """How many of many released buffers are taken again."""
    buffers = [take(size) for _ in range(3 * SPARES_MAX)]
    released = {id(buffer) for buffer in buffers}
    for buffer in buffers:
        release(buffer)
    taken = [take(size) for _ in buffers]  # the others are still there, so no id is used again
    return len(released & {id(buffer) for buffer in taken})


def test_a_limited_number_of_buffers_of_each_size_is_kept() -> None:
    assert kept(SIZE) == SPARES_MAX
    assert kept(SIZE + 1) == SPARES_MAX


def test_the_largest_that_are_kept_have_exactly_the_limits_size() -> None:
    assert kept(SIZE_MAX) == SPARES_MAX
    assert kept(SIZE_MAX + 1) == 0


def test_a_buffer_has_the_size_that_is_asked_for() -> None:
    release(take(SIZE))
    assert len(take(SIZE)) == SIZE
    assert len(take(SIZE - 1)) == SIZE - 1
    release(bytearray())
    assert take(0) == b""
