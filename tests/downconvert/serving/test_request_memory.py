"""Memory of requests is shared by addresses, and no client waits for ever."""

from threading import Thread

import pytest

from downconvert.serving.limits import FREE_SIZE
from downconvert.serving.request_memory import ELEMENT_SIZE, OneRequest, RequestMemory

MANY = FREE_SIZE // ELEMENT_SIZE + 1  # elements that are counted


def test_memory_is_given_until_there_is_none() -> None:
    memory = RequestMemory(300)
    one, two = memory.of("a"), memory.of("a")
    favoured = memory.of("a")
    assert favoured.take(101)
    assert not one.take(1)
    favoured.release()
    assert one.take(60)
    assert two.take(40)
    one.release()
    assert two.take(60)
    assert (one.taken, two.taken, memory.free) == (0, 100, 200)


def test_an_address_takes_half_of_what_it_leaves_to_others() -> None:
    memory = RequestMemory(900)
    requests = [memory.of(address) for address in "abc"]
    for request, share in zip(requests, (300, 200, 133), strict=True):
        assert request.take(share)
        assert memory.of("z").take(0)  # there is something for others
        beyond = memory.of(request.address)
        assert beyond.take(1)  # this one is favoured, so no other is beyond the limit
        assert not memory.of(request.address).take(1)
        beyond.release()
    assert memory.free == 900 - 300 - 200 - 133


def test_requests_of_one_address_keep_no_other_waiting() -> None:
    memory = RequestMemory(900)
    theirs = [memory.of("a") for _ in range(50)]
    assert sum(one.take(10) for one in theirs) == 31  # the last one is beyond the limit
    ours = memory.of("b")
    assert ours.take(100)
    assert ours.take(0)
    for one in theirs:
        one.release()
    ours.release()
    assert memory.free == 900


def test_one_request_may_grow_beyond_the_memory_so_that_not_all_wait_for_each_other() -> None:
    memory = RequestMemory(300)
    one, two = memory.of("a"), memory.of("a")
    assert one.take(50)
    assert two.take(50)
    assert one.take(10)
    assert not two.take(10)
    assert one.take(1000)
    assert memory.free < 0
    one.release()
    assert two.take(10)


def test_after_the_end_of_a_request_that_grew_beyond_the_memory_another_one_may() -> None:
    memory = RequestMemory(100)
    one, two = memory.of("a"), memory.of("b")
    assert one.take(120)
    assert not two.take(1)
    one.release()
    assert two.take(120)
    assert not one.take(1)


def test_the_end_of_one_request_does_not_let_a_second_one_grow_beside_the_first() -> None:
    memory = RequestMemory(300)
    one, two = memory.of("a"), memory.of("a")
    assert one.take(50)
    assert two.take(60)
    one.release()
    assert not memory.of("a").take(60)
    assert two.take(60)


def test_one_request_of_each_address_may_grow_while_there_is_memory() -> None:
    """Otherwise a request that never ends would keep those of another address from ending."""
    memory = RequestMemory(900)
    theirs, slow = memory.of("a"), memory.of("a")
    assert theirs.take(300)
    assert slow.take(50)
    ours = [memory.of("b") for _ in range(3)]
    assert [one.take(60) for one in ours] == [True, True, True]
    assert [one.take(10) for one in ours] == [True, False, False]
    assert ours[0].take(360)
    assert memory.free == 0
    assert ours[0].take(1)  # nobody else is beyond the limit
    assert not slow.take(1)
    ours[0].release()
    assert slow.take(500)
    assert memory.free < 0
    assert not ours[1].take(100)
    slow.release()
    assert ours[1].take(100)


def test_elements_are_counted_once_whether_or_not_there_is_memory() -> None:
    size = MANY * ELEMENT_SIZE
    memory = RequestMemory(3 * size)
    one, two, three = (memory.of("a") for _ in range(3))
    assert one.charge(MANY)
    assert one.charge(MANY)
    assert one.taken == size
    assert not two.charge(MANY)
    assert not three.charge(MANY)
    assert memory.free == 0
    assert two.take(1)  # it is beyond the limit, so no other may be
    assert not three.take(1)
    for request in (one, two, three):
        request.release()
    assert memory.free == 3 * size
    assert one.charge(MANY)  # the next request's
    assert (one.taken, memory.free) == (size, 2 * size)


def test_few_elements_are_not_counted() -> None:
    memory = RequestMemory(0)
    one = memory.of("a")
    assert one.charge(MANY - 1)
    assert (one.taken, memory.free) == (0, 0)


@pytest.mark.parametrize("addresses", ["a", "abcd"])
def test_the_sum_is_right_whichever_threads_take_and_release(addresses: str) -> None:
    memory = RequestMemory(1000)

    def come_and_go(request: OneRequest) -> None:
        for number in range(500):
            request.take(number % 70)
            request.charge(MANY * (number % 2))
            if number % 3 == 0:
                request.release()
        request.release()

    requests = [memory.of(addresses[number % len(addresses)]) for number in range(4)]
    threads = [Thread(target=come_and_go, args=(request,)) for request in requests]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert memory.free == 1000
    assert memory.of("a").take(1001)
    assert not memory.of("b").take(1)  # nobody was favoured before
