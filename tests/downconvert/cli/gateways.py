"""Gateways as processes, and a cluster for them."""

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from downconvert.gateway.topology import Address
from downconvert.protocol.schemas import ApiKey, Message
from tests.downconvert.gateway.serving import TIMEOUT, Wire
from tests.downconvert.gateway.talk import message_set, produce_body
from tests.ports import LOOPBACK, free_ports

from .running import start


class Running:
    """A running gateway, and its output."""

    def __init__(self, process: "subprocess.Popen[str]", *, as_json: bool) -> None:
        self.process = process
        assert process.stdout is not None
        self.connecting = process.stdout.readline()
        assert self.connecting, process.communicate()
        if as_json:
            ready = json.loads(self.connecting)
            self.address = Address(ready["host"], ready["port"])
        else:
            found = re.search(r"connect to ([\d.]+):(\d+)", self.connecting)
            assert found is not None, self.connecting
            self.address = Address(found[1], int(found[2]))
        self._lines = process.stdout

    def ready(self) -> str:
        """Its output after the cluster has answered."""
        return self._lines.readline()

    def ask(self, api: ApiKey, version: int, body: Message) -> Message:
        with Wire(self.address) as client:
            return client.ask(api, version, body)

    def end(self) -> tuple[int, str]:
        """Ends it. Returns its exit code and its standard error."""
        self.process.terminate()
        _, output = self.process.communicate(timeout=TIMEOUT)
        return self.process.returncode, output


@contextmanager
def gateway(port: int, *options: object, listen: bool = True) -> Iterator[Running]:
    (node,) = free_ports(1)
    where = ("--bootstrap", f"{LOOPBACK}:{port}") if listen else ()
    ports = ("--listen", f"{LOOPBACK}:0", "--node-port", f"0={node}")
    process = start("gateway", *where, *ports, *options)
    try:
        yield Running(process, as_json="--json" in options)
    finally:
        process.kill()
        process.communicate()


def produce(running: Running) -> int:
    """The error code that an old producer gets."""
    response = running.ask(ApiKey.Produce, 0, produce_body(message_set(0, b"a")))
    code: int = response.responses[0].partition_responses[0].error_code
    return code


def wait_for_line(running: Running, words: str) -> None:
    assert running.process.stderr is not None
    for line in running.process.stderr:
        if words in line:
            return
    raise AssertionError(f"it ended without saying {words!r}")
