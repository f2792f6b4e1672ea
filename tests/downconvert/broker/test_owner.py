"""Steps are posted by anybody and run by one, and work that goes on lets others go first."""

from functools import partial
from threading import Thread

from downconvert.broker.owner import Owner, ThreadOwner


def test_a_step_is_run_by_its_owner_and_by_no_other_thread() -> None:
    woken: list[str] = []
    ran: list[float] = []
    owner = Owner(lambda: woken.append("woken"))
    poster = Thread(target=owner.post, args=(ran.append,))
    poster.start()
    poster.join()
    assert (ran, woken, owner.has_work) == ([], ["woken"], True)
    assert owner.run_due(7.0)
    assert (ran, owner.has_work) == ([7.0], False)
    assert not owner.run_due(8.0)


def test_steps_are_run_in_the_order_in_which_they_were_posted() -> None:
    owner = Owner()
    ran: list[str] = []

    def note(name: str, _now: float) -> None:
        ran.append(name)

    for name in "abc":
        owner.post(partial(note, name))
    while owner.run_due(0.0):
        pass
    assert ran == ["a", "b", "c"]


def test_work_in_progress_takes_one_turn_at_a_time() -> None:
    owner = Owner()
    ran: list[str] = []

    def resume(name: str, _now: float) -> None:
        ran.append(name)
        owner.post_turn(partial(resume, name))

    for name in "ab":
        owner.post_turn(partial(resume, name))
    assert not owner.run_due(0.0)
    owner.run_turns(0.0)
    assert ran == ["a", "b"]
    assert owner.run_turn(0.0)
    assert ran == ["a", "b", "a"]
    assert owner.has_work


def test_each_thread_has_an_owner_of_its_own() -> None:
    mine = ThreadOwner()
    others: list[Owner] = []
    thread = Thread(target=lambda: others.append(mine.owner))
    thread.start()
    thread.join()
    assert others[0] is not mine.owner


def test_the_owner_is_woken_when_the_step_is_there() -> None:
    """A step is posted before its owner is woken, so the owner never sleeps again without it."""
    seen: list[bool] = []
    owner = Owner(lambda: seen.append(owner.has_work))
    owner.post(lambda _now: None)
    assert seen == [True]


def test_work_that_is_posted_during_a_round_of_turns_waits_for_the_next_round() -> None:
    """A round of turns ends, although each turn posts another one."""
    owner = Owner()
    ran: list[float] = []

    def resume(now: float) -> None:
        ran.append(now)
        assert len(ran) <= 3
        owner.post_turn(resume)

    owner.post_turn(resume)
    for now in (1.0, 2.0):
        owner.run_turns(now)
    assert ran == [1.0, 2.0]
