"""What `downconvert serve` starts, in a process of its own, with groups that form at once.

    python -m tests.clients.server DIRECTORY [writable]

Its one line says the address. It ends when standard input does."""

import sys
from pathlib import Path

from broker import Broker, BrokerConfig
from broker.server import Server
from storage import LogDir


def main(directory: str, *options: str) -> None:
    is_writable = "writable" in options
    config = BrokerConfig(is_writable=is_writable, group_initial_rebalance_delay_ms=0)
    with (
        LogDir.open(Path(directory), writable=is_writable) as log_dir,
        Server(Broker(log_dir, config), ("127.0.0.1", 0)) as server,
    ):
        host, port = server.address
        print(f"{host}:{port}", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
