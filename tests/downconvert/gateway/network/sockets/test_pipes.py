"""Pipes that are used again: never one with something in it, and never too many."""

import os

import pytest

from downconvert.gateway.network.sockets import pipes

pytestmark = pytest.mark.skipif(not hasattr(os, "splice"), reason="the system has no splice")


@pytest.fixture(autouse=True)
def no_free_pipes() -> None:
    """Other tests have left none."""
    for _ in range(pipes.KEPT_MAX):
        pipes.take().close()


def test_a_pipe_that_was_given_back_is_reused() -> None:
    pipe = pipes.take()
    pipes.give_back(pipe, is_empty=True)
    again = pipes.take()
    assert again == pipe
    os.write(again.inlet, b"something")
    assert os.read(again.outlet, 100) == b"something"
    again.close()


def test_bytes_that_are_left_in_a_pipe_are_not_for_the_next_user() -> None:
    pipe = pipes.take()
    os.write(pipe.inlet, b"another's")
    pipes.give_back(pipe, is_empty=False)
    other = pipes.take()
    with pytest.raises(BlockingIOError):
        os.read(other.outlet, 1)
    other.close()


def test_few_pipes_are_kept_for_reuse() -> None:
    given = [pipes.take() for _ in range(pipes.KEPT_MAX + 3)]
    for pipe in given:
        pipes.give_back(pipe, is_empty=True)
    taken = [pipes.take() for _ in given]
    assert sum(any(one is other for other in given) for one in taken) == pipes.KEPT_MAX
    for pipe in taken:
        pipe.close()
