"""Periodic work on transactions: completes prepared ones, aborts timed-out ones, forgets old ones.

It runs at once when a broker starts with transactional ids in its log, and then every
transaction.abort.timed.out.transaction.cleanup.interval.ms while there are any.

Not here: which transactions are due (coordinator.py)."""

from threading import Lock

from downconvert.broker.config import BrokerConfig
from downconvert.broker.purgatory import Purgatory

from .coordinator import Transactions


class Sweep:
    """The periodic work of one coordinator, called by the purgatory."""

    def __init__(
        self, transactions: Transactions, config: BrokerConfig, purgatory: Purgatory
    ) -> None:
        self._transactions = transactions
        self._purgatory = purgatory
        interval = config.transaction_abort_timed_out_transaction_cleanup_interval_ms
        self._interval = interval / 1000
        expiry = config.transaction_remove_expired_transaction_cleanup_interval_ms
        self._expiry_interval = expiry / 1000
        self._next_expiry: float | None = None
        self._lock = Lock()
        self._is_armed = False
        transactions.on_change = lambda now: self._arm(now, now + self._interval)
        if transactions.all():
            # Due at the first call of the purgatory, because the time is unknown here.
            self._arm(-1.0, 0.0)

    def _run(self, now: float) -> None:
        try:
            self._transactions.complete_prepared(now)
            self._transactions.abort_timed_out(now)
            if self._next_expiry is None or now >= self._next_expiry:
                self._next_expiry = now + self._expiry_interval
                self._transactions.expire(now)
        finally:  # also after an unexpected error, so that transactions still time out
            with self._lock:
                self._is_armed = False
            if self._transactions.all():
                self._arm(now, now + self._interval)

    def _arm(self, now: float, deadline: float) -> None:
        with self._lock:
            if self._is_armed:
                return
            self._is_armed = True
        self._purgatory.call_at(deadline, self._run, now)
