"""What does a gateway cost, and which old clients read through it?

python -m bench.gateway memory
python -m bench.gateway sizing
python -m bench.gateway speed
python -m bench.gateway calls
python -m bench.gateway clients --clients pypi,maven"""

import click

from .servers.gateway_calls import calls
from .servers.gateway_clients import clients
from .servers.gateway_memory import memory
from .servers.gateway_sizing import sizing
from .servers.gateway_speed import speed


@click.group()
def main() -> None:
    """Measures the gateway."""


main.add_command(calls)
main.add_command(clients)
main.add_command(memory)
main.add_command(sizing)
main.add_command(speed)

if __name__ == "__main__":
    main()
