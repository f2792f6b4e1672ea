"""One ledger in several processes."""

import os
import signal
from threading import Thread
from time import sleep

import pytest

from downconvert.access.failed_logins import FIRST_WAIT, FailedLogins
from downconvert.access.ledger import Entry, Ledger
from downconvert.access.quotas import Quotas
from downconvert.gateway.config import GatewayConfig
from downconvert.gateway.processes import CONTEXT
from downconvert.gateway.server import Gateway
from downconvert.gateway.session.shared import Ledgers
from downconvert.gateway.shared_ledger import SET_ENTRIES, SETS, SharedLedger
from downconvert.gateway.topology import Address

RATE = 100.0  # bytes a second
TIMES = 2000


def count(ledger: Ledger, name: str = "a") -> None:
    ledger.change(name, lambda entry: Entry(1.0, entry.number + 1))


def count_often(ledger: SharedLedger) -> None:
    for _ in range(TIMES):
        count(ledger)


def die_in_the_midst(ledger: SharedLedger) -> None:
    def die(_: Entry) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    ledger.change("a", die)


def kept(ledger: Ledger, name: str = "a") -> Entry:
    entries = list[Entry]()
    ledger.change(name, entries.append)
    return entries[0]


def test_processes_that_change_an_entry_at_once_lose_nothing_and_one_that_dies_locks_nothing() -> (
    None
):
    ledger = SharedLedger()
    assert kept(ledger) == Entry()
    jobs = (count_often, count_often, die_in_the_midst)
    processes = [CONTEXT.Process(target=job, args=(ledger,)) for job in jobs]
    for process in processes:
        process.start()
    count_often(ledger)
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0, -signal.SIGKILL]
    assert kept(ledger) == Entry(1.0, 3 * TIMES)


def test_threads_that_change_an_entry_at_once_lose_nothing() -> None:
    ledger = SharedLedger()

    def slowly(entry: Entry) -> Entry:
        sleep(0.0001)  # another thread has its turn
        return Entry(1.0, entry.number + 1)

    def count_slowly() -> None:
        for _ in range(50):
            ledger.change("a", slowly)

    threads = [Thread(target=count_slowly) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert kept(ledger) == Entry(1.0, 200)


def note(ledger: Ledger, names: list[str]) -> None:
    for at, name in enumerate(names):
        ledger.change(name, lambda _, at=at: Entry(float(at), at))  # type: ignore[misc]


def test_names_are_kept_apart() -> None:
    ledger, names = SharedLedger(), [f"client {number}" for number in range(1000)]
    note(ledger, names)
    assert [kept(ledger, name).number for name in names] == list(range(1000))


def test_names_of_any_number_take_bounded_memory() -> None:
    """And the newest are known."""
    ledger, names = SharedLedger(), [str(number) for number in range(2 * SETS * SET_ENTRIES)]
    note(ledger, names)
    known = [kept(ledger, name) != Entry() for name in names]
    assert all(known[-100:])
    assert sum(known) <= SETS * SET_ENTRIES


@pytest.mark.parametrize("is_ascending", [True, False])
def test_a_full_set_forgets_the_name_with_the_oldest_time(is_ascending: bool) -> None:
    """The order of the names does not matter."""
    ledger, names = SharedLedger(), [str(number) for number in range(2 * SETS * SET_ENTRIES)]
    for at, name in enumerate(names if is_ascending else reversed(names)):
        time = at + 1.0 if is_ascending else len(names) - at
        ledger.change(name, lambda _, time=time: Entry(time, 1))  # type: ignore[misc]
    newest = names[-SETS * SET_ENTRIES // 2 :]  # they fill half of the sets' room
    known = sum(kept(ledger, name) != Entry() for name in newest)
    assert known > 0.95 * len(newest)


def test_a_name_changes_its_own_entry_and_no_other_of_its_set() -> None:
    ledger, names = SharedLedger(), [str(number) for number in range(SETS * SET_ENTRIES // 4)]
    note(ledger, names)
    before = [kept(ledger, name) for name in names]
    ledger.change(names[0], lambda entry: entry._replace(number=entry.number + 5))
    ledger.change("another", lambda _: None)
    assert kept(ledger, names[0]) == before[0]._replace(number=before[0].number + 5)
    assert [kept(ledger, name) for name in names[1:]] == before[1:]


def test_names_that_cannot_be_encoded_are_kept_apart() -> None:
    ledger, names = SharedLedger(), ["a\ud800", "a\ud801", "a"]
    note(ledger, names)
    assert [kept(ledger, name).number for name in names] == [0, 1, 2]


def test_ledgers_place_names_by_secrets_of_their_own() -> None:
    """So no client can choose names that push others out."""
    ledgers, names = [SharedLedger(), SharedLedger()], [str(n) for n in range(5 * SETS)]
    for ledger in ledgers:
        note(ledger, names)
    known = [[kept(ledger, name) != Entry() for name in names] for ledger in ledgers]
    assert known[0] != known[1]


@pytest.mark.parametrize("name", ["", "\ud800", "x" * 100_000])
def test_an_entry_may_have_any_name(name: str) -> None:
    ledger = SharedLedger()
    count(ledger, name)
    assert kept(ledger, name) == Entry(1.0, 1)


def test_rates_and_waits_after_failed_logins_are_of_all_who_share_it() -> None:
    shared = Ledgers(SharedLedger(), SharedLedger())
    config = GatewayConfig(bootstrap=(Address("cluster", 9092),))
    gateway = Gateway(config, ledgers=shared)
    gateway.pool.close()
    assert gateway.quotas.charge("a", "fetch", 1000, RATE, 50.0) == 9
    assert Quotas(shared.quotas).charge("a", "fetch", 100, RATE, 50.0) == 10
    assert Quotas(shared.quotas).charge("a", "produce", 100, RATE, 50.0) == 0
    gateway.failed_logins.fail("ann", "10.0.0.1", 50.0)
    wait = FailedLogins(shared.failed_logins).begin("ann", "10.0.0.1", 50.0).wait
    assert wait == pytest.approx(FIRST_WAIT)
    assert FailedLogins(shared.quotas).begin("ann", "10.0.0.1", 50.0).wait == 0
