"""A broker's metrics in Prometheus' text format.

`DeprecatedRequestsPerSec` (KIP-896, since 3.8) counts requests of versions that Kafka 4 refuses, by
request, version and client software. `RequestsPerSec` counts only by request and version. It is
used if the first is missing. Exporters name metrics and labels in different ways
(`kafka_network_requestmetrics_deprecatedrequestspersec_count{request="Fetch",...}`,
`kafka_network_RequestMetrics_Count{name="DeprecatedRequestsPerSec",...}`), so case and underscores
are ignored.

The page has no client ids and no addresses. Counters begin when the broker starts."""

import math
import re
from collections.abc import Iterator
from typing import Final

from records.units import KiB

from .evidence import Problems, Seen, seen
from .releases import key_of

LINE_MAX: Final = 64 * KiB  # bytes
DEPRECATED: Final = "deprecatedrequestspersec"
ALL: Final = "requestspersec"
# Meters also export these: the count under another name, or a rate.
_RATES: Final = re.compile(r"(rate|created|mean|minute)$")
# Starts only at the beginning of a word, so that matching takes time linear in a line's length.
_LABEL: Final = re.compile(r'(?<!\w)([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"')
# The broker counts each Fetch a second time under one of these.
_AGAIN: Final = {"fetchconsumer", "fetchfollower", "verifypartitionsintxn"}


class MetricsPage:
    """A Reader of one page. It yields everything at the end."""

    def __init__(self, when: float | None = None) -> None:
        """`when`: seconds since the epoch, when the page was read."""
        self.problems = Problems()
        self._when = when
        self._line = bytearray()
        self._is_long = False
        self._deprecated: list[Seen] = []
        self._all: dict[tuple[int, int], int] = {}
        self._has_deprecated = False

    def feed(self, data: bytes) -> Iterator[Seen]:
        *lines, rest = data.split(b"\n")
        for line in lines:
            self._keep(line)
            self._whole()
        self._keep(rest)
        yield from self._deprecated
        self._deprecated.clear()

    def end(self) -> Iterator[Seen]:
        self._whole()
        yield from self._deprecated
        self._deprecated.clear()
        if not self._has_deprecated:
            for (api, version), count in self._all.items():
                one = seen(client_id="", api=api, version=version, requests=count, when=self._when)
                if one is not None:
                    yield one
            if not self._all:
                self.problems.add("neither DeprecatedRequestsPerSec nor RequestsPerSec is in it")

    def _keep(self, data: bytes) -> None:
        self._is_long |= len(self._line) + len(data) > LINE_MAX
        self._line += data[: LINE_MAX - len(self._line)]

    def _whole(self) -> None:
        line, is_long = self._line.decode("utf-8", "replace"), self._is_long
        self._line.clear()
        self._is_long = False
        if is_long:
            self.problems.add("lines that are too long")
        elif ALL in line.lower().replace("_", "") and not line.startswith("#"):
            self._sample(line)

    def _sample(self, line: str) -> None:
        exported = line.lower().partition("{")[0]
        between, _, value = line[len(exported) + 1 :].rpartition("}")
        labels = {
            name.lower().replace("_", ""): re.sub(r"\\(.)", r"\1", value)
            for name, value in _LABEL.findall(between)
        }
        metric = exported.replace("_", "") + labels.get("name", "").lower()
        if ALL not in metric or _RATES.search(exported.strip()) or "quantile" in labels:
            return
        is_deprecated = DEPRECATED in metric
        self._has_deprecated |= is_deprecated
        request, version = labels.get("request", ""), labels.get("version", "")
        if request.lower() in _AGAIN or not (is_deprecated or version):
            return  # before 2.0 there was no version
        count = _count(value)
        api = key_of(request)
        if count is None or api is None or not re.fullmatch(r"\d{1,3}", version):
            self.problems.add("lines of metrics that cannot be read")
            return
        software = labels.get("clientsoftwarename", ""), labels.get("clientsoftwareversion", "")
        one = seen(
            client_id="",
            software=software if is_deprecated else ("", ""),
            api=api,
            version=int(version),
            requests=count,
            when=self._when,
        )
        if one is None or not count:
            return
        if is_deprecated:
            self._deprecated.append(one)
        else:
            self._all[one.api, one.version] = self._all.get((one.api, one.version), 0) + count


def _count(text: str) -> int | None:
    try:
        value = float(text.split()[0])  # a time may follow
    except (ValueError, IndexError):
        return None
    return int(value) if math.isfinite(value) and 0 <= value < 1 << 63 else None
