from downconvert.cli.failure import in_words, shortened


def test_a_package_that_is_missing_is_told_how_to_get() -> None:
    words = in_words(ModuleNotFoundError(name="kafka.protocol"))
    assert words == "this needs the extra 'broker': pip install 'lazy-downconvert[broker]'"


def test_a_module_of_our_own_that_is_not_here_is_a_defect() -> None:
    assert in_words(ModuleNotFoundError(name="records.nothing")) is None


def test_of_many_problems_the_first_are_told() -> None:
    assert shortened(["a", "b", "c"], shown_max=2) == ["a", "b", "1 more like these"]
    assert shortened(["a"], shown_max=2) == ["a"]
