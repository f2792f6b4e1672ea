"""Do the tests notice small mistakes in changed lines?

cosmic-ray puts mistakes into the changed lines of Python, one at a time, and runs each file's own
tests against each. cargo-mutants does the same for the kernel, with its tests in Rust.

    make mutants                                       # lines changed since main
    make mutants SINCE=HEAD~3 SAMPLE=50
    python -m bench.mutation_testing --folder downconvert/broker --sample 200 --seed 1

Everything happens in a copy. A mistake that no test could notice is marked in its line with
`# pragma: no mutate` and a reason. The exit code is 1 if a mistake was not noticed."""

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final

PRODUCT: Final = ("records", "downconvert", "simulator", "pyspark_kafka_segments")
KERNEL: Final = "native"
COMPILED: Final = "records/_kernel.abi3.so"
TEST_SECONDS: Final = 120  # for one run of a file's tests, because a mistake may never end
IMPORTING_MAX: Final = 4  # tests that import a file, besides those of its name
BESIDE_MAX: Final = 12
# Unlikely mistakes, most of which change nothing: `is` for `==`, a missing @abstractmethod.
UNLIKELY: Final = re.compile(
    r"core/(RemoveDecorator|ReplaceComparisonOperator_(?!Is)\w+_Is(Not)?)$"
)
HUNK: Final = re.compile(r"^@@ -\S+ \+(\d+)(?:,(\d+))? @@")


def changed_lines(since: str) -> dict[str, set[int]]:
    """By file of the product, the numbers of the lines that have changed since a commit."""
    base = _git("merge-base", since, "HEAD").strip()
    found: defaultdict[str, set[int]] = defaultdict(set)
    path = ""
    for line in _git("diff", "--unified=0", base, "--", *PRODUCT).splitlines():
        if line.startswith("+++ "):
            path = line.removeprefix("+++ b/")
        elif hunk := HUNK.match(line):
            first, count = int(hunk[1]), int(hunk[2] or 1)
            found[path] |= set(range(first, first + count))
    return {path: lines for path, lines in found.items() if path.endswith(".py") and lines}


def own_tests(path: str) -> list[str]:
    """The tests of a file: those of its name, some that import it, and all tests beside it if the
    folder is small. If there are none, the tests of its folder, or of the nearest folder above that
    has tests."""
    file = Path(path)
    folder = Path("tests") / file.parent
    own = folder / f"test_{file.stem}.py"
    module = ".".join(file.with_suffix("").parts)
    imports = re.compile(rf"^from {re.escape(module)} import ", re.MULTILINE)
    found = [own] if own.exists() else []
    importing = (
        test
        for test in sorted(Path("tests").rglob("test_*.py"))
        if imports.search(test.read_text())
    )
    found += [test for test in importing if test not in found][:IMPORTING_MAX]
    while not folder.exists():  # without tests, every mistake would count as noticed
        folder = folder.parent
    beside = sorted(folder.glob("test_*.py"))
    if len(beside) <= BESIDE_MAX:  # in a small folder, tests may be for several files together
        found += [test for test in beside if test not in found]
    return [str(test) for test in found] or [str(folder)]


def try_file(
    copy: Path, path: str, lines: set[int] | None, sample: int, random: Random
) -> tuple[Counter[str], list[str]]:
    """The outcomes of the mistakes in a file, and the unnoticed ones. `lines`: the lines to change,
    or None for all. Tries at most `sample` mistakes."""
    from cosmic_ray.work_db import WorkDB, use_db
    from cosmic_ray.work_item import TestOutcome, WorkerOutcome, WorkResult

    tests = " ".join(own_tests(path))
    command = f"{sys.executable} -m pytest -q -x -p no:cacheprovider -m 'not others' {tests}"
    (copy / "mutants.toml").write_text(
        f'[cosmic-ray]\nmodule-path = "{path}"\ntimeout = {TEST_SECONDS}.0\n'
        f'excluded-modules = []\ntest-command = "{command}"\n'
        '[cosmic-ray.distributor]\nname = "local"\n'
    )
    session = copy / "session.sqlite"
    session.unlink(missing_ok=True)
    _tool(copy, "cosmic-ray", "init", "mutants.toml", session.name)
    _tool(copy, "cr-filter-pragma", session.name)
    with use_db(str(session), WorkDB.Mode.open) as work:
        pending = sorted(work.pending_work_items, key=lambda one: one.job_id)
        inside = [one for one in pending if _is_likely(one.mutations[0], lines)]
        inside.sort(key=lambda one: repr(one.mutations))
        kept = {one.job_id for one in random.sample(inside, min(sample, len(inside)))}
        for one in pending:
            if one.job_id not in kept:
                skipped = WorkResult(worker_outcome=WorkerOutcome.SKIPPED)
                work.set_result(one.job_id, skipped)
    _tool(copy, "cosmic-ray", "exec", "mutants.toml", session.name)
    outcomes, missed = Counter[str](), []
    with use_db(str(session), WorkDB.Mode.open) as work:
        for job_id, result in work.results:
            if job_id in kept:
                noticed = result.test_outcome is not TestOutcome.SURVIVED
                outcomes["noticed" if noticed else "missed"] += 1
                if not noticed:
                    missed.append(result.diff or job_id)
    return outcomes, missed


def _is_likely(mutation: Any, lines: set[int] | None) -> bool:
    """Whether a mistake is in one of the lines, and one that somebody might make."""
    if UNLIKELY.match(mutation.operator_name):
        return False
    rows = range(mutation.start_pos[0], mutation.end_pos[0] + 1)
    return lines is None or not lines.isdisjoint(rows)


def try_kernel(since: str) -> int:
    """Runs cargo-mutants over the changes in the kernel. Returns its exit code."""
    diff = _git("diff", f"--relative={KERNEL}", _git("merge-base", since, "HEAD").strip())
    if not diff.strip():
        return 0
    if subprocess.run(("cargo", "mutants", "--version"), capture_output=True).returncode:
        print("the kernel has changed, and its mistakes need: cargo install cargo-mutants")
        return 1
    with TemporaryDirectory(prefix="mutants-") as directory:
        named = Path(directory) / "kernel.diff"
        named.write_text(diff)
        command = ("cargo", "mutants", "--no-default-features", "--dir", KERNEL)
        where = ("--in-diff", str(named), "--output", directory)
        return subprocess.run((*command, *where), check=False).returncode


def _copy(target: Path) -> None:
    """Copies the files that git tracks, in their current state, and the compiled kernel."""
    for name in _git("ls-files", "--cached", "--others", "--exclude-standard").splitlines():
        if Path(name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(name, target / name)
    if Path(COMPILED).exists():
        shutil.copy2(COMPILED, target / COMPILED)


def _git(*arguments: str) -> str:
    return subprocess.run(("git", *arguments), capture_output=True, text=True, check=True).stdout


def _tool(directory: Path, name: str, *arguments: str) -> None:
    tool = Path(sys.executable).with_name(name)
    environment = os.environ | {"PYTHONPATH": str(directory)}  # of programs that tests start, too
    subprocess.run(
        (str(tool), *arguments), cwd=directory, check=True, capture_output=True, env=environment
    )


def _files(folder: str) -> list[str]:
    return sorted(str(path) for path in Path(folder).rglob("*.py") if path.name != "__init__.py")


def try_all(
    files: Mapping[str, set[int] | None], sample: int, seed: int
) -> dict[str, Counter[str]]:
    """The outcomes by folder. Prints the unnoticed mistakes."""
    by_folder: defaultdict[str, Counter[str]] = defaultdict(Counter)
    with TemporaryDirectory(prefix="mutants-") as directory:
        copy = Path(directory)
        _copy(copy)
        for number, (path, lines) in enumerate(files.items()):
            share = sample // len(files) + (number < sample % len(files))
            if not share:
                continue
            random = Random(f"{seed}/{path}")
            outcomes, missed = try_file(copy, path, lines, share, random)
            by_folder[str(Path(path).parent)] += outcomes
            print(f"{path}: {dict(outcomes)}", flush=True)
            for diff in missed:
                print(f"not noticed:\n{diff}", flush=True)
    return dict(by_folder)


def _shuffled(files: Iterable[str], seed: int) -> dict[str, set[int] | None]:
    ordered = list(files)
    Random(seed).shuffle(ordered)
    return dict.fromkeys(ordered)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--since", default="main", help="the commit from which lines have changed")
    parser.add_argument("--folder", help="all lines of a folder, whatever has changed")
    parser.add_argument("--sample", type=int, default=100, help="so many mistakes at most")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    files: dict[str, set[int] | None] = (
        _shuffled(_files(options.folder), options.seed)
        if options.folder
        else dict(changed_lines(options.since))
    )
    print(f"{len(files)} files, at most {options.sample} mistakes, seed {options.seed}", flush=True)
    by_folder = try_all(files, options.sample, options.seed) if files else {}
    for folder, outcomes in sorted(by_folder.items()):
        print(f"{folder}: {outcomes['noticed']} of {outcomes.total()} noticed")
    kernel = 0 if options.folder else try_kernel(options.since)
    return 1 if kernel or any(one["missed"] for one in by_folder.values()) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
