from math import inf

from downconvert.broker.network.muted import Muted


def test_each_is_read_from_again_at_its_time() -> None:
    muted = Muted()
    for number, until in ((1, 3.0), (2, 1.0), (3, 2.0)):
        muted.add(number, until)
    assert muted.next_end == 1.0
    assert list(muted.over(2.0)) == [2, 3]
    assert (muted.next_end, list(muted.over(2.9))) == (3.0, [])
    assert (list(muted.over(3.0)), muted.next_end) == ([1], inf)


def test_clients_that_have_gone_are_forgotten() -> None:
    muted = Muted()
    for number in range(10):
        muted.add(number, 10.0 - number)
    muted.keep(lambda number: number % 2 == 0)
    assert list(muted.over(100.0)) == [8, 6, 4, 2, 0]


def test_the_next_end_is_known_after_the_first_client_has_gone() -> None:
    muted = Muted()
    for until in (1.0, 5.0, 2.0, 6.0, 7.0, 3.0):
        muted.add(int(until), until)
    muted.keep(lambda number: number != 1)
    assert muted.next_end == 2.0
    assert list(muted.over(6.0)) == [2, 3, 5, 6]
