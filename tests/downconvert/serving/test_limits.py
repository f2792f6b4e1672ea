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
