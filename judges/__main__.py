"""Which tests of other projects pass on Kafka, directly and through the gateway, and on
`downconvert serve`?

    python -m judges --list
    python -m judges --quick
    python -m judges --suite franz-go --target serve --tests 'TestTxn|TestPing'
    python -m judges --suite franz-go --again      # what failed, once more: then that counts
    python -m judges --kept --markdown docs/judges.md   # of all runs that are kept, runs none

Runs of whole suites are stored in build/judges/outcomes. A repeated test replaces its result there.
The output of failed tests is in build/judges/failed. The exit code is 1 if a test that passes on
Kafka fails here without a known reason (reasons.py)."""

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import click

from . import table
from .outcome import Outcome, Run, Verdict, failed_before, keep, kept, kept_run, merged
from .places import FAILED
from .suite import Selection, Suite
from .suites import SUITES
from .targets import TARGETS, Target

_NAMES = {"suite": [suite.name for suite in SUITES], "target": [target.name for target in TARGETS]}


@click.command(help=__doc__)
@click.option("--suite", "suites", multiple=True, type=click.Choice(_NAMES["suite"]))
@click.option("--target", "targets", multiple=True, type=click.Choice(_NAMES["target"]))
@click.option("--tests", default="", help="Only those whose names have this regular expression.")
@click.option("--quick", is_flag=True, help="A few tests of each suite: minutes.")
@click.option("--again", is_flag=True, help="Of kept runs, what failed, once more.")
@click.option("--kept", "only_kept", is_flag=True, help="Run nothing: show what is kept.")
@click.option("--markdown", type=click.Path(path_type=Path, dir_okay=False), help="Write that.")
@click.option("--list", "listing", is_flag=True, help="Name the suites and the targets.")
def main(
    suites: Sequence[str],
    targets: Sequence[str],
    tests: str,
    quick: bool,
    again: bool,
    only_kept: bool,
    markdown: Path | None,
    listing: bool,
) -> None:
    chosen_suites = [suite for suite in SUITES if suite.name in (suites or _NAMES["suite"])]
    chosen_targets = [target for target in TARGETS if target.name in (targets or _NAMES["target"])]
    if listing:
        for suite in chosen_suites:
            print(f"suite   {suite.name:24} {suite.version}")
        for target in chosen_targets:
            print(f"target  {target.name:24} {target.title}")
        return
    re.compile(tests)
    if only_kept:
        runs = kept()
    else:
        print(f"options: {shlex.join(sys.argv[1:])}", flush=True)
        runs = []
        for suite in chosen_suites:
            suite.prepare()
            for target in chosen_targets:
                before = kept_run(suite.name, target.name)
                chosen = tests if not again else failed_before(before) if before else ""
                if again and not chosen:
                    continue
                run = judged(suite, target, quick, chosen)
                if before and chosen and not quick:
                    run = merged(before, run)
                runs.append(run)
                if not quick and (before or not chosen):
                    keep(run)
        if not quick:
            runs = kept()
    print(table.text(runs))
    if markdown:
        markdown.write_text(table.document(runs))
    unexplained = [difference for difference in table.differences(runs) if not difference.reason]
    for difference in unexplained:
        print(f"no reason known: {difference}")
    sys.exit(bool(unexplained))


def judged(suite: Suite, target: Target, quick: bool, tests: str) -> Run:
    """A suite on a target that is started for it alone."""
    logs = FAILED / suite.name / target.name
    if not (quick or tests):
        shutil.rmtree(logs, ignore_errors=True)
    logs.mkdir(parents=True, exist_ok=True)
    date = datetime.now(UTC).date().isoformat()
    outcomes: list[Outcome] = []
    place = f"{suite.name} {target.name}"
    try:
        with target.start() as bootstrap:
            for outcome in suite.run(Selection(target, bootstrap, quick, tests, logs)):
                outcomes.append(outcome)
                output = f"  {outcome.output[:160]}" if outcome.verdict is not Verdict.PASS else ""
                line = f"{place} {outcome.verdict} {outcome.test} {outcome.seconds:.1f} s{output}"
                print(line, flush=True)
    except (subprocess.TimeoutExpired, RuntimeError) as error:
        if not outcomes:
            raise
        outcomes.append(Outcome("the end of the target", Verdict.FAIL, 0.0, str(error)[:200]))
    command = f"python -m judges --suite {suite.name} --target {target.name}"
    return Run(suite.name, target.name, suite.version, command, date, outcomes)


if __name__ == "__main__":
    main()
