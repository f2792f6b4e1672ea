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
from .writing import Cluster, RefusedError, Written

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
    plans = [plan for plan in PLANS if not names or plan.name in names]
    prefix = f"conformance-{secrets.token_hex(4)}"
    made: list[str] = []
    skipped: list[str] = []
    left: list[str] = []
    try:
        try:
            if not cluster.offers(ApiKey.Fetch) or not cluster.offers(ApiKey.Produce):
                raise ConformanceError(f"{host}:{port}: it offers no Fetch, or no Produce")
            found = _judged(cluster, plans, prefix, made, skipped, cleaner_seconds, step)
            if not found:
                raise ConformanceError(f"{host}:{port}: nothing to judge: {'; '.join(skipped)}")
        finally:  # after Ctrl-C too
            if made and not keep:
                left += _left(cluster, prefix, made)
    except ConformanceError as error:
        raise ConformanceError("; ".join((str(error), *left))) from None
    finally:
        cluster.close()
    return Score(f"{host}:{port}", cluster.offers(ApiKey.Fetch), found, skipped, left)


def _judged(
    cluster: Cluster,
    plans: Sequence[Plan],
    prefix: str,
    made: list[str],
    skipped: list[str],
    cleaner_seconds: float,
    step: Step,
) -> list[Case]:
    """All cases. The names of the topics, and what could not be written, are added to the lists."""
    found: list[Case] = []
    later: list[Written] = []  # topics that are being compacted
    for number, plan in enumerate(sorted(plans, key=lambda plan: not plan.is_compacted)):
        step(plan.name, number, len(plans))
        if plan.has_transactions and not cluster.has_transactions:
            skipped.append(f"{plan.name}: the broker offers no transactions")
            continue
        made.append(f"{prefix}-{plan.name}")
        try:
            written = cluster.write(plan, made[-1])
        except RefusedError as error:
            skipped.append(f"{plan.name}: {error}")
            continue
        if plan.is_compacted:
            later.append(written)
        elif why := unlike_its_plan(cluster, written, 0):
            skipped.append(f"{plan.name}: {why}")
        else:
            found += cases(cluster, written)
    for written in later:
        step(written.plan.name, len(plans) - 1, len(plans))
        if why := unlike_its_plan(cluster, written, cleaner_seconds):
            skipped.append(f"{written.plan.name}: {why}")
        else:
            found += cases(cluster, written)
    return found


def _left(cluster: Cluster, prefix: str, names: list[str]) -> list[str]:
    """Deletes topics. Returns the reason if some are still there."""
    try:
        cluster.delete(names)
    except ConformanceError as error:
        return [f"topics {prefix}-… are still there: {error}"]
    return []
