"""All cases of a broker, counted.

Not here: the output (page.py, the command)."""

import secrets
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from downconvert.protocol.schemas import ApiKey

from .connection import PLAIN, Access, ConformanceError
from .fetching import unlike_its_plan
from .judge import Case, cases
from .plans import PLANS, Plan
from .rules import RULES
from .writing import Cluster, ForbiddenError, RefusedError, Written

OLD_BELOW = 4  # versions of Fetch that get an older format than v2
CLEANER_SECONDS = 60.0  # Kafka's cleaner checks every 15 seconds
Step = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Fault:
    """A broken rule: the cases that broke it, and the first finding."""

    rule: str
    cases: Sequence[Case]
    words: str
    shown: str

    @property
    def versions(self) -> list[int]:
        return sorted({case.version for case in self.cases})

    @property
    def topics(self) -> list[str]:
        return list(dict.fromkeys(case.topic for case in self.cases))


@dataclass(frozen=True, slots=True)
class Score:
    """The result of a broker."""

    broker: str
    versions: range  # of Fetch that it offers
    cases: Sequence[Case]
    skipped: Sequence[str]  # topics that could not be written, and why
    left: Sequence[str]  # topics that could not be deleted, and why

    @property
    def right(self) -> int:
        return sum(not case.findings for case in self.cases)

    @property
    def serves_old(self) -> bool:
        """Whether it offers versions for clients of formats before v2."""
        return bool(self.versions) and self.versions.start < OLD_BELOW

    @property
    def again(self) -> float:
        """The share of repeated bytes among those sent to old versions with the largest limit."""
        old = [case for case in self.cases if case.version < OLD_BELOW and case.limit != "1"]
        sent = sum(case.bytes_sent for case in old)
        return sum(case.bytes_again for case in old) / sent if sent else 0.0

    def of(self, version: int) -> tuple[int, int]:
        """The numbers of right and of all cases of one version."""
        found = [case for case in self.cases if case.version == version]
        return sum(not case.findings for case in found), len(found)

    def faults(self) -> list[Fault]:
        """The findings by rule, in the order of the rules."""
        found = []
        for rule in RULES:
            wrong = [case for case in self.cases if any(one.rule == rule for one in case.findings)]
            if wrong:
                first = next(one for one in wrong[0].findings if one.rule == rule)
                found.append(Fault(rule, wrong, first.words, first.shown))
        return found

    def as_json(self) -> dict[str, Any]:
        return {
            "broker": self.broker,
            "fetch": [self.versions.start, self.versions.stop - 1] if self.versions else [],
            "right": self.right,
            "cases": len(self.cases),
            "again": round(self.again, 4),
            "skipped": list(self.skipped),
            "left": list(self.left),
            "faults": [
                {
                    "rule": fault.rule,
                    "versions": fault.versions,
                    "topics": fault.topics,
                    "cases": len(fault.cases),
                    "words": fault.words,
                    "bytes": fault.shown,
                    "source": RULES[fault.rule].source,
                    "hurts": RULES[fault.rule].hurts,
                }
                for fault in self.faults()
            ],
        }


def judge(
    host: str,
    port: int,
    *,
    access: Access = PLAIN,
    names: Collection[str] = (),
    keep: bool = False,
    cleaner_seconds: float = CLEANER_SECONDS,
    step: Step,
) -> Score:
    """Writes topics to the broker, reads them, and deletes them again.

    `names`: of plans; empty: all. `keep`: the topics stay. `cleaner_seconds`: the time for the
    broker to compact a topic, after all others were judged. `step` is called with the progress.
    ConformanceError: nothing can be judged."""
    cluster = Cluster(host, port, access)
    topics = _Topics(cluster, [plan for plan in PLANS if not names or plan.name in names], step)
    left: list[str] = []
    try:
        try:
            if not cluster.offers(ApiKey.Fetch) or not cluster.offers(ApiKey.Produce):
                raise ConformanceError(f"{host}:{port}: it offers no Fetch, or no Produce")
            found = topics.judge(cleaner_seconds)
            if not found:
                why = "; ".join(topics.skipped)
                raise ConformanceError(f"{host}:{port}: nothing to judge: {why}")
        finally:  # after Ctrl-C too
            if topics.made and not keep:
                left += topics.delete()
    except ConformanceError as error:
        raise ConformanceError("; ".join((str(error), *left))) from None
    finally:
        cluster.close()
    offered = cluster.offers(ApiKey.Fetch)
    return Score(f"{host}:{port}", offered, found, topics.skipped, left)


class _Topics:
    """The topics of a run: they are written, judged and deleted.

    `made`: their names. `skipped`: topics that could not be judged, and why."""

    def __init__(self, cluster: Cluster, plans: Sequence[Plan], step: Step) -> None:
        self.made: list[str] = []
        self.skipped: list[str] = []
        self._cluster = cluster
        self._plans = sorted(plans, key=lambda plan: not plan.is_compacted)
        self._step = step
        self._prefix = f"conformance-{secrets.token_hex(4)}"

    def judge(self, cleaner_seconds: float) -> list[Case]:
        """All cases. Compacted topics are written first and judged last."""
        found: list[Case] = []
        compacted: list[Written] = []
        for number, plan in enumerate(self._plans):
            self._step(plan.name, number, len(self._plans))
            written = self._write(plan)
            if written is not None and plan.is_compacted:
                compacted.append(written)
            elif written is not None:
                found += self._cases(written, 0)
        for written in compacted:
            self._step(written.plan.name, len(self._plans) - 1, len(self._plans))
            found += self._cases(written, cleaner_seconds)
        return found

    def delete(self) -> list[str]:
        """Returns the reason if some are still there."""
        try:
            self._cluster.delete(self.made)
        except ConformanceError as error:
            return [f"topics {self._prefix}-… are still there: {error}"]
        return []

    def _write(self, plan: Plan) -> Written | None:
        """None: it could not be written."""
        if plan.has_transactions and not self._cluster.has_transactions:
            self.skipped.append(f"{plan.name}: the broker offers no transactions")
            return None
        self.made.append(f"{self._prefix}-{plan.name}")
        try:
            return self._cluster.write(plan, self.made[-1])
        except ForbiddenError:
            self.made.pop()  # there is nothing to delete
            raise
        except RefusedError as error:
            self.skipped.append(f"{plan.name}: {error}")
            return None

    def _cases(self, written: Written, seconds: float) -> list[Case]:
        """The topic's cases. Empty: its log is not as planned after so many seconds."""
        if why := unlike_its_plan(self._cluster, written, seconds):
            self.skipped.append(f"{written.plan.name}: {why}")
            return []
        return list(cases(self._cluster, written))
