"""An object of the last round is not made again. One that was not requested is forgotten."""

from functools import partial

from downconvert.spark.stores.object_cache import ObjectCache


def test_values_are_made_once_for_as_long_as_they_are_asked_for() -> None:
    cache, made = ObjectCache(), list[str]()

    def of(key: str) -> int:
        def make() -> int:
            made.append(key)
            return len(made)

        return cache.of(key, make)

    assert (of("a"), of("b"), of("a")) == (1, 2, 1)
    cache.next_round()
    assert of("a") == 1
    cache.next_round()
    assert (of("a"), of("b")) == (1, 3)  # nobody asked for b in the round before
    cache.put("c", 7)
    cache.next_round()
    assert of("c") == 7
    assert made == ["a", "b", "b"]


def test_none_is_a_value() -> None:
    cache, made = ObjectCache(), list[int]()
    for _ in range(2):
        assert cache.of("a", partial(made.append, 1)) is None
    assert made == [1]
