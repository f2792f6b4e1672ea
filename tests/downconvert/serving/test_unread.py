"""Responses that nobody reads are limited in their sum."""

from functools import partial
from threading import Thread

from downconvert.serving.limits import FREE_SIZE
from downconvert.serving.unread import UnreadResponses

SIZE = 2 * FREE_SIZE


def held(unread: UnreadResponses, closed: list[str], *names: str, size: int = SIZE) -> None:
    for name in names:
        unread.hold(name, size, partial(closed.append, name))


def test_the_client_that_has_read_nothing_for_the_longest_time_is_disconnected() -> None:
    unread, closed = UnreadResponses(3 * SIZE), list[str]()
    held(unread, closed, "a", "b", "c")
    held(unread, closed, "a")  # has read a part
    assert (closed, unread.free) == ([], 0)
    held(unread, closed, "d")
    assert (closed, unread.free) == (["b"], 0)
    held(unread, closed, "e", size=2 * SIZE)
    assert (closed, unread.free) == (["b", "c", "a"], 0)


def test_a_response_larger_than_the_limit_is_sent_alone() -> None:
    unread, closed = UnreadResponses(3 * SIZE), list[str]()
    held(unread, closed, "a", "b")
    held(unread, closed, "large", size=9 * SIZE)
    held(unread, closed, "large", size=9 * SIZE)
    assert (closed, unread.free) == (["a", "b"], -6 * SIZE)
    unread.release("large")
    unread.release("a")
    assert unread.free == 3 * SIZE


def test_small_responses_are_not_counted() -> None:
    unread, closed = UnreadResponses(0), list[str]()
    held(unread, closed, "a", "b", size=FREE_SIZE)
    assert (closed, unread.free) == ([], 0)
    held(unread, closed, "a", "b", size=FREE_SIZE + 1)
    assert closed == ["a"]


def test_a_response_that_was_read_makes_room() -> None:
    unread, closed = UnreadResponses(2 * SIZE), list[str]()
    for number in range(9):
        held(unread, closed, str(number), "stays")
        unread.release(str(number))
    assert (closed, unread.free) == ([], SIZE)


def test_the_sum_is_right_whichever_threads_hold_and_release() -> None:
    unread, closed = UnreadResponses(3 * SIZE), list[str]()

    def come_and_go(name: str) -> None:
        for number in range(500):
            held(unread, closed, f"{name}{number % 3}")
            unread.release(f"{name}{number % 2}")

    threads = [Thread(target=come_and_go, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for name in "abcd":
        for number in range(3):
            unread.release(f"{name}{number}")
    assert unread.free == 3 * SIZE
