from pathlib import Path

from downconvert.broker.network.wake import Wake


def descriptors() -> int:
    """How many are open."""
    return len(list(Path("/dev/fd").iterdir()))


def test_a_thread_that_has_ended_may_still_be_woken() -> None:
    before = descriptors()
    wake = Wake()
    wake.ring()
    wake.close()
    assert descriptors() == before
    other = Wake()
    other.close()
    other.ring()
