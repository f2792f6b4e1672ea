from downconvert.serving.limits import RequestMemory


def test_memory_is_given_until_there_is_none() -> None:
    memory = RequestMemory(100)
    assert memory.take("a", 60)
    assert memory.take("b", 40)
    memory.release("a", 60)
    assert memory.take("b", 60)


def test_one_request_may_grow_beyond_the_memory_so_that_not_all_wait_for_each_other() -> None:
    memory = RequestMemory(100)
    assert memory.take("a", 50)
    assert memory.take("b", 50)
    assert memory.take("a", 10)
    assert not memory.take("b", 10)
    assert memory.take("a", 1000)
    memory.release("a", 1060)
    assert memory.take("b", 10)


def test_after_the_end_of_a_request_that_grew_beyond_the_memory_another_one_may() -> None:
    memory = RequestMemory(100)
    assert memory.take("a", 120)
    assert not memory.take("b", 1)
    memory.release("a", 120)
    assert memory.take("b", 120)
    assert not memory.take("a", 1)


def test_the_end_of_one_request_does_not_let_a_second_one_grow_beside_the_first() -> None:
    memory = RequestMemory(100)
    assert memory.take("a", 50)
    assert memory.take("b", 60)
    memory.release("a", 50)
    assert not memory.take("c", 60)
    assert memory.take("b", 60)
