"""Can any client do something that its rule denies, or not do something that it allows?

    python -m bench.rights --rules 20 --seed 20261123

Clients with every kind of rule, and with random rules, send every API in every version to `serve`
and through a gateway. Requests name their own, foreign and missing resources. The results are
compared with Kafka's table of operations (tests/downconvert/rights). A failure ends with the
command that repeats it."""

import sys
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import monotonic

import click

from tests.downconvert.rights.asking import Oracle, WrongError
from tests.downconvert.rights.rules import KINDS, random_rule


@click.command()
@click.option("--rules", default=20, help="How many random rules, beside one of each kind.")
@click.option("--seed", default=1, help="Of all of them.")
@click.option("--only", help="One rule: its number, or its kind.")
def main(rules: int, seed: int, only: str | None) -> None:
    """Tries all rules."""
    tried = KINDS | {str(number): random_rule(Random(seed + number)) for number in range(rules)}
    if only is not None:
        tried = {only: tried[only]}
    started = monotonic()
    with TemporaryDirectory() as directory, Oracle(Path(directory)) as oracle:
        for name, settings in tried.items():
            try:
                oracle.ask_all(settings)
            except WrongError as error:
                click.echo(str(error), err=True)
                command = f"python -m bench.rights --rules {rules} --seed {seed} --only {name!r}"
                click.echo(f"reproduce: {command}", err=True)
                sys.exit(1)
            asked = sum(oracle.counts.values())
            click.echo(f"{asked:>10,} in {monotonic() - started:.0f} s: {settings}", err=True)
        for how, times in sorted(oracle.counts.items()):
            click.echo(f"{times:>10,}  {how}")


if __name__ == "__main__":
    main()
