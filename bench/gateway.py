"""What does a gateway cost, and whom does it serve? Each command opens with its question.

    python -m bench.gateway memory
    python -m bench.gateway speed
    python -m bench.gateway clients --clients pypi,maven

Not here: the experiments (gateway_memory.py, gateway_speed.py, gateway_clients.py)."""

import click

from bench.gateway_clients import clients


@click.group()
def main() -> None:
    """Measures the gateway."""


main.add_command(clients)

if __name__ == "__main__":
    main()
