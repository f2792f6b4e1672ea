"""What a thread does with connections that nothing is read from. The rest: test_server.py."""

from pathlib import Path

from downconvert.broker.access.rights import Access
from downconvert.broker.wire.schemas import ApiKey

from .guarding import guard_of
from .talking import Talk, fetch, serving, wait_for


def test_who_goes_while_it_waits_for_its_rate_is_gone(tmp_path: Path) -> None:
    """Or what clients leave that come again and again would grow for as long as they owe."""
    with serving(tmp_path, size=1000) as server:
        server.broker.guard = guard_of(None, Access(consumer_byte_rate=0.001))
        for _ in range(3):
            with Talk(server.address) as talk:
                answer = talk.ask(ApiKey.Fetch, 4, fetch())
                assert answer.throttle_time_ms > 3_600_000
        wait_for(lambda: len(server.admission) == 0)
        threads = (*server._network, *server._converting)
        wait_for(lambda: not any(thread._muted for thread in threads))
