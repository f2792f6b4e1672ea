from threading import Thread
from weakref import ref

import pytest

from downconvert.serving.places import NoPlaceError, Place, Places

MANY = 1_000_000


def settled(places: Places, address: str, places_max: int = MANY, address_max: int = MANY) -> Place:
    place = places.take(address, places_max, address_max)
    place.settle()
    return place


def test_connections_are_limited_in_all() -> None:
    places = Places()
    first = settled(places, "a", 2)
    settled(places, "b", 2)
    with pytest.raises(NoPlaceError, match="there are 2 connections already"):
        places.take("c", 2, MANY)
    first.release()
    settled(places, "c", 2)


def test_connections_are_limited_by_address() -> None:
    places = Places()
    settled(places, "a", address_max=1)
    with pytest.raises(NoPlaceError, match="it has 1 connections already"):
        places.take("a", MANY, 1)
    settled(places, "b", address_max=1)


def test_the_peak_is_that_since_the_last_call() -> None:
    places = Places()
    held = [settled(places, "a") for _ in range(3)]
    held.pop().release()
    assert [len(places), places.take_peak(), places.take_peak()] == [2, 3, 2]
    held.pop().release()
    settled(places, "b")
    assert [places.take_peak(), places.take_peak()] == [2, 2]
    held.pop().release()
    assert [places.take_peak(), places.take_peak()] == [2, 1]
    for place in [settled(places, "c") for _ in range(3)]:
        place.release()
    settled(places, "c")
    assert places.take_peak() == 4  # fewer were taken at the end


def test_a_refused_client_is_not_counted() -> None:
    places = Places()
    held = settled(places, "a", 1)
    for _ in range(10):
        with pytest.raises(NoPlaceError):
            places.take("b", 1, MANY)
    assert len(places) == 1
    held.release()
    places.take("b", 1, 1)  # as the first of its address


def test_clients_that_have_not_logged_in_give_up_their_places_the_oldest_first() -> None:
    places, evicted = Places(), list[str]()
    for name, address in (("user", "a"), ("old", "b"), ("new", "b"), ("alone", "c")):
        place = places.take(address, 4, MANY)
        place.on_evicted = lambda name=name: evicted.append(name)
        if name == "user":
            place.settle()
    for _ in range(3):
        settled(places, "d", 4)
    assert evicted[:2] == ["old", "new"] or evicted[:2] == ["old", "alone"]
    assert sorted(evicted) == ["alone", "new", "old"]
    with pytest.raises(NoPlaceError):
        places.take("e", 4, MANY)
    assert len(places) == 4


@pytest.mark.parametrize("order", ["abbcd", "bbacd", "acdbb"])
def test_the_address_with_the_most_unsettled_places_loses_one(order: str) -> None:
    """The order of the addresses does not matter, nor the number of places that others have
    settled."""
    places, evicted = Places(), list[str]()
    for _ in range(3):
        settled(places, "c")
    for number, address in enumerate(order):
        place = places.take(address, MANY, MANY)
        place.on_evicted = lambda name=f"{address}{number}": evicted.append(name)
    settled(places, "e", 3 + len(order))
    assert evicted == [f"b{order.index('b')}"]


def test_an_address_that_is_full_evicts_its_own() -> None:
    places, evicted = Places(), list[str]()
    for address in "ab":
        place = places.take(address, MANY, 1)
        place.on_evicted = lambda address=address: evicted.append(address)
    places.take("b", MANY, 1)
    assert evicted == ["b"]


def test_a_place_that_was_evicted_is_given_back_once() -> None:
    places = Places()
    first = places.take("a", 1, MANY)
    second = settled(places, "a", 1)
    first.settle()
    first.release()
    first.release()
    assert len(places) == 1
    second.release()
    assert len(places) == 0


class Address(str):
    """Says when nothing refers to it any more."""


@pytest.mark.parametrize("settles", [True, False])
def test_nothing_is_kept_of_addresses_that_have_gone(settles: bool) -> None:
    """Otherwise the memory would grow with each address that ever connected."""
    places, addresses = Places(), list[ref[Address]]()
    for number in range(3):
        address = Address(f"192.0.2.{number}")
        addresses.append(ref(address))
        held = [places.take(address, MANY, MANY) for _ in range(2)]
        for place in held:
            if settles:
                place.settle()
            place.release()
    del address, place, held
    assert [one() for one in addresses] == [None] * 3


def test_nothing_is_kept_of_an_address_whose_place_was_evicted() -> None:
    places, address = Places(), Address("192.0.2.1")
    gone, place = ref(address), places.take(address, 1, MANY)
    del address
    settled(places, "a", 1)
    place.release()
    del place
    assert gone() is None


def test_places_are_counted_right_whichever_threads_take_and_release() -> None:
    places = Places()

    def come_and_go() -> None:
        for number in range(500):
            place = places.take(str(number % 3), 4, 3)
            if number % 2:
                place.settle()
            place.release()

    threads = [Thread(target=come_and_go) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(places) == 0
    for number in range(3):  # none of them has the place of one who never settled
        settled(places, str(number), 3)
    with pytest.raises(NoPlaceError):
        places.take("another", 3, 3)
