"""Responses that nobody reads are limited in their sum."""

from functools import partial
from threading import Thread

from downconvert.serving.limits import FREE_SIZE
from downconvert.serving.places import Place, Places
from downconvert.serving.unread import UnreadResponses

SIZE = 2 * FREE_SIZE


class Clients:
    """Clients by name. The first letter names the address that they connect from."""

    def __init__(self, size: int) -> None:
        self.unread = UnreadResponses(size)
        self.closed: list[str] = []
        self._places = Places()
        self._by_name: dict[str, Place] = {}

    def place(self, name: str) -> Place:
        if name not in self._by_name:
            self._by_name[name] = self._places.take(name[0], 100, 100)
        return self._by_name[name]

    def hold(self, *names: str, size: int = SIZE) -> None:
        for name in names:
            self.unread.hold(self.place(name), size, partial(self.closed.append, name))

    def release(self, *names: str) -> None:
        for name in names:
            self.unread.release(self.place(name))


def test_the_client_that_has_read_nothing_for_the_longest_time_is_disconnected() -> None:
    clients = Clients(3 * SIZE)
    clients.hold("a1", "a2", "a3")
    clients.hold("a1")  # has read a part
    assert (clients.closed, clients.unread.free) == ([], 0)
    clients.hold("a4")
    assert (clients.closed, clients.unread.free) == (["a2"], 0)
    clients.hold("a5", size=2 * SIZE)
    assert (clients.closed, clients.unread.free) == (["a2", "a3", "a1"], 0)


def test_the_address_that_takes_the_most_makes_room() -> None:
    """A client of another address reads on as slowly as it likes, however many wait at this one."""
    clients = Clients(4 * SIZE)
    clients.hold("slow", "b1", "b2", "c1")
    clients.hold("b3", "b4")
    assert (clients.closed, clients.unread.free) == (["b1", "b2"], 0)
    clients.hold("c2", "c3")
    assert (clients.closed, clients.unread.free) == (["b1", "b2", "b3", "c1"], 0)
    clients.hold("d", size=3 * SIZE)
    assert clients.closed[4:] == ["d"]
    clients.release("slow", "b4", "c2", "c3")
    assert clients.unread.free == 4 * SIZE


def test_the_bytes_of_an_address_count_and_not_its_responses() -> None:
    clients = Clients(5 * SIZE)
    clients.hold("a1", "a2")
    clients.hold("b1", size=3 * SIZE)
    clients.hold("c1")
    assert (clients.closed, clients.unread.free) == (["b1"], 2 * SIZE)


def test_a_response_larger_than_the_limit_is_sent_alone() -> None:
    clients = Clients(3 * SIZE)
    clients.hold("a1", "a2")
    clients.hold("a3", size=9 * SIZE)
    clients.hold("a3", size=9 * SIZE)
    assert (clients.closed, clients.unread.free) == (["a1", "a2"], -6 * SIZE)
    clients.release("a3", "a1")
    assert clients.unread.free == 3 * SIZE


def test_small_responses_are_not_counted() -> None:
    clients = Clients(0)
    clients.hold("a", "b", size=FREE_SIZE)
    assert (clients.closed, clients.unread.free) == ([], 0)
    clients.hold("a", "b", size=FREE_SIZE + 1)
    assert clients.closed == ["a"]


def test_a_response_that_was_read_makes_room() -> None:
    clients = Clients(2 * SIZE)
    for number in range(9):
        clients.hold(f"a{number}", "stays")
        clients.release(f"a{number}")
    assert (clients.closed, clients.unread.free) == ([], SIZE)


def test_a_response_counts_while_it_waits() -> None:
    clients = Clients(SIZE)
    with clients.unread.held(clients.place("a"), SIZE, clients.closed.clear):
        assert clients.unread.free == 0
    assert clients.unread.free == SIZE


def test_the_sum_is_right_whichever_threads_hold_and_release() -> None:
    clients = Clients(3 * SIZE)
    names = [f"{name}{number}" for name in "abcd" for number in range(3)]
    for name in names:
        clients.place(name)

    def come_and_go(name: str) -> None:
        for number in range(500):
            clients.hold(f"{name}{number % 3}")
            clients.release(f"{name}{number % 2}")

    threads = [Thread(target=come_and_go, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    clients.release(*names)
    assert clients.unread.free == 3 * SIZE
