from downconvert.broker.limits import Admission, Limits, RequestMemory


def test_connections_are_limited_in_all() -> None:
    admission = Admission(Limits(connections=2))
    assert admission.admit("a")
    assert admission.admit("b")
    assert not admission.admit("c")
    admission.dismiss("a")
    assert admission.admit("c")


def test_connections_are_limited_by_address() -> None:
    admission = Admission(Limits(connections_per_address=1))
    assert admission.admit("a")
    assert not admission.admit("a")
    assert admission.admit("b")


def test_who_is_refused_is_not_counted() -> None:
    admission = Admission(Limits(connections=1))
    assert admission.admit("a")
    for _ in range(10):
        assert not admission.admit("b")
    assert len(admission) == 1


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
