"""rsyslog that forwards lines to Kafka (omkafka) and takes them from there (imkafka).

Both hand settings to librdkafka as they are given. omkafka is also run on the librdkafka that came
with systems of its time."""

from pathlib import Path
from typing import Final

from . import packages
from .application import AS_IT_COMES, NAMES, Application, Does, Setting, Trial
from .children import running

PACKAGES: Final = (
    *("rsyslog", "rsyslog-kafka", "libestr0", "libfastjson4", "liblognorm5", "librdkafka1"),
)
PINNED: Final = Setting(
    '`api.version.request=false`, `broker.version.fallback="0.9.0.1"`',
    {"confParam": '"api.version.request=false","broker.version.fallback=0.9.0.1"'},
)
OLDER: Final = ("1.4.2", "1.6.0", "1.8.2")

_COMMON: Final = """
global(workDirectory="{here}" maxMessageSize="8k")
module(load="imfile" mode="polling" pollingInterval="1")
template(name="line" type="string" string="%rawmsg%\\n")
template(name="message" type="string" string="%msg%")
"""
_OUT: Final = """
module(load="omkafka")
input(type="imfile" file="{here}/in.log" tag="in:")
action(type="omkafka" broker="{bootstrap}" topic="{topic}" template="message"
       confParam=[{settings}])
"""
_IN: Final = """
module(load="imkafka")
input(type="imkafka" broker="{bootstrap}" topic="{topic}" consumergroup="{topic}"
      confParam=["auto.offset.reset=earliest"{settings}])
action(type="omfile" file="{here}/out.log" template="line")
"""


def install() -> Path:
    return packages.debian(*PACKAGES)


def produce(trial: Trial) -> str:
    trial.write("in.log", "".join(f"{name}\n" for name in NAMES))
    _run(trial, _OUT, trial.setting.values.get("confParam", '"client.id=rsyslog"'))
    return ""


def consume(trial: Trial) -> str:
    settings = trial.setting.values.get("confParam", "")
    _run(trial, _IN, f",{settings}" if settings else "")
    out = trial.directory / "out.log"
    return out.read_text(errors="replace") if out.exists() else ""


def _run(trial: Trial, what: str, settings: str) -> None:
    known = {
        "here": trial.directory,
        "bootstrap": trial.bootstrap,
        "topic": trial.topic,
        "settings": settings,
    }
    configuration = trial.write("rsyslog.conf", (_COMMON + what).format(**known))
    root = trial.installed
    older = trial.setting.values.get("librdkafka")
    libraries = packages.of_debian(root, *([packages.librdkafka(older)] if older else []))
    modules = str(root / packages.LIBRARIES / "rsyslog")
    command = (str(root / "usr/sbin/rsyslogd"), "-n", "-f", str(configuration), "-M", modules)
    pid = ("-i", str(trial.directory / "rsyslogd.pid"))
    with running((*command, *pid), trial.log, environment=libraries) as process:
        if what == _OUT:
            trial.until(trial.arrived, process)
        else:
            trial.until(lambda: trial.has_all(trial.directory / "out.log"), process)


def _with(version: str) -> Setting:
    return Setting(f"with librdkafka {version}", {"librdkafka": version})


def _application(module: str, does: Does) -> Application:
    older = map(_with, OLDER) if does is Does.PRODUCES else ()  # imkafka does not load with them
    return Application(
        name=f"rsyslog, {module}",
        comes_from="Debian: rsyslog-kafka 8.2302.0; older librdkafka from PyPI: confluent-kafka",
        client="librdkafka 2.0.2",
        does=does,
        settings=(AS_IT_COMES, PINNED, *older),
        install=install,
        run=produce if does is Does.PRODUCES else consume,
    )


APPLICATIONS: Final = (
    _application("omkafka", Does.PRODUCES),
    _application("imkafka", Does.CONSUMES),
)
