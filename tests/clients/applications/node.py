"""Node's own old clients, by the programs of a user: no-kafka and kafka-node, which nobody
maintains any more, and node-rdkafka, which brings a librdkafka.

Not here: what each reads, topic by topic (tests/clients/run.py)."""

from functools import partial
from pathlib import Path
from typing import Final

from . import packages
from .application import AS_IT_COMES, NAMES, Application, Does, Setting, Trial
from .children import finished

VERSIONS: Final = {
    "kafka-node": (("5.0.0", "kafka-node 5.0.0"),),
    "no-kafka": (("3.4.3", "no-kafka 3.4.3"),),
    "node-rdkafka": (("2.10.1", "librdkafka 1.5.3"),),
}
PROGRAMS: Final = packages.PROGRAMS / "node"
# Headers of Node from 20 on are of C++17, where the bindings ask for C++11.
COMPILER: Final = {"CXXFLAGS": "-std=c++17 -w", "CFLAGS": "-w -fcommon"}
PINNED: Final = Setting(
    '`"api.version.request": false, "broker.version.fallback": "0.9.0.1"`',
    {"options": '{"api.version.request": false, "broker.version.fallback": "0.9.0.1"}'},
)


def install(package: str, version: str) -> Path:
    if package == "node-rdkafka":
        return packages.npm(package, version, environment=COMPILER)
    return packages.npm(package, version, "--omit=optional", "--ignore-scripts")


def run(package: str, does: Does, trial: Trial) -> str:
    program = str(PROGRAMS / f"{package.replace('-', '_')}.js")
    asked = (does.value, trial.bootstrap, trial.topic, trial.setting.values.get("options", "{}"))
    out = trial.directory / "out.log"
    finished(
        ("node", program, *asked, *NAMES),
        trial.log,
        trial.seconds,
        out=out,
        environment={"NODE_PATH": str(trial.installed / "node_modules")},
    )
    return out.read_text(errors="replace")


def _application(package: str, version: str, client: str, does: Does) -> Application:
    return Application(
        name=f"{package} {version}, {does.value}",
        comes_from=f"npm: {package} {version}",
        client=client,
        does=does,
        settings=(AS_IT_COMES, *((PINNED,) if package == "node-rdkafka" else ())),
        install=partial(install, package, version),
        run=partial(run, package, does),
    )


APPLICATIONS: Final = tuple(
    _application(package, version, client, does)
    for package, versions in VERSIONS.items()
    for version, client in versions
    for does in (Does.PRODUCES, Does.CONSUMES)
)
