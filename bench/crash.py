"""Does a log survive a crash of its machine or of its process at any moment?

Small logs of every format are appended to, rolled, truncated, cleaned, and cut by age and size at
random. A machine crashes at a random operation on its disk, and loses any of its unsynced data; a
process is killed by a signal at a random time. After each crash the log must be a prefix of the
written records, at least as long as the flushed ones, with no torn record, before recovery and
after. Only records that a later record of the same key replaced may be missing."""

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

import click

from tests.downconvert.storage.deaths import machine_dies, process_is_killed

DEATHS: Final = 4  # of one log, one after the other
WAYS: Final[dict[str, Callable[[Path, int, int], None]]] = {
    "machine": machine_dies,
    "process": process_is_killed,
}


@click.command()
@click.option("--deaths", default=1000, show_default=True, help="of machines and processes, in all")
@click.option("--seed", default=1, show_default=True)
@click.option("--way", type=click.Choice(list(WAYS)), help="how to die; both if not given")
def main(deaths: int, seed: int, way: str | None) -> None:
    """Crashes logs, and checks the remaining records."""
    ways = [way] if way else list(WAYS)
    logs = max(1, deaths // DEATHS // len(ways))
    click.echo(f"{logs} logs a way ({', '.join(ways)}), {DEATHS} deaths each, from seed {seed}")
    for way in ways:
        for number in range(logs):
            with tempfile.TemporaryDirectory() as directory:
                try:
                    WAYS[way](Path(directory), seed + number, DEATHS)
                except Exception as error:
                    click.echo(f"{way}, seed {seed + number}: {error!r}", err=True)
                    again = f"--way {way} --seed {seed + number} --deaths {DEATHS}"
                    click.echo(f"reproduce: python -m bench.crash {again}", err=True)
                    sys.exit(1)
        click.echo(
            f"{way}: died {logs * DEATHS} times; all that was flushed is there, nothing torn"
        )


if __name__ == "__main__":
    main()
