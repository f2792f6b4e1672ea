"""Telegraf: lines of a file into a topic (outputs.kafka), and a topic into a file
(inputs.kafka_consumer). `version` is Sarama's, and says which requests it sends.

outputs.kafka gets the same file each second, so records come more than once."""

from pathlib import Path
from typing import Final

from . import packages
from .application import AS_IT_COMES, NAMES, Application, Does, Setting, Trial
from .children import running

VERSION: Final = "v1.37.2"
# The plugins that are used; all of them are hundreds of modules.
TAGS: Final = (
    *("custom", "outputs.kafka", "inputs.file", "outputs.file", "inputs.kafka_consumer"),
    *("parsers.influx", "parsers.value", "serializers.influx"),
)
_AGENT: Final = """
[agent]
interval = "1s"
flush_interval = "1s"
omit_hostname = true
"""
_OUT: Final = """
[[inputs.file]]
files = ["{here}/in.log"]
data_format = "influx"
[[outputs.kafka]]
brokers = ["{bootstrap}"]
topic = "{topic}"
{settings}
"""
_IN: Final = """
[[inputs.kafka_consumer]]
brokers = ["{bootstrap}"]
topics = ["{topic}"]
consumer_group = "{topic}"
offset = "oldest"
data_format = "value"
data_type = "string"
{settings}
[[outputs.file]]
files = ["{here}/out.log"]
"""


def install() -> Path:
    command = "github.com/influxdata/telegraf/cmd/telegraf"
    return packages.go(command, VERSION, "-tags", ",".join(TAGS))


def produce(trial: Trial) -> str:
    lines = (f'line name="{name}" {number}\n' for number, name in enumerate(NAMES, 1))
    trial.write("in.log", "".join(lines))
    _run(trial, _OUT)
    return ""


def consume(trial: Trial) -> str:
    _run(trial, _IN)
    out = trial.directory / "out.log"
    return out.read_text(errors="replace") if out.exists() else ""


def _run(trial: Trial, what: str) -> None:
    text = (_AGENT + what).format(
        here=trial.directory,
        topic=trial.topic,
        bootstrap=trial.bootstrap,
        settings=trial.setting.values.get("plugin", ""),
    )
    configuration = trial.write("telegraf.conf", text)
    command = (str(trial.installed / "telegraf"), "--config", str(configuration))
    with running(command, trial.log) as process:
        if what == _OUT:
            trial.until(trial.arrived, process)
        else:
            trial.until(lambda: trial.has_all(trial.directory / "out.log"), process)


def _version(version: str) -> Setting:
    return Setting(f'`version = "{version}"`', {"plugin": f'version = "{version}"'})


def _application(plugin: str, does: Does, *versions: str) -> Application:
    return Application(
        name=f"Telegraf, {plugin}",
        comes_from=f"Go: github.com/influxdata/telegraf {VERSION}",
        client="Sarama",
        does=does,
        settings=(AS_IT_COMES, *map(_version, versions)),
        install=install,
        run=produce if does is Does.PRODUCES else consume,
    )


APPLICATIONS: Final = (
    _application("outputs.kafka", Does.PRODUCES, "0.8.2.0", "0.10.2.0", "2.6.0"),
    _application("inputs.kafka_consumer", Does.CONSUMES, "0.10.2.0", "2.6.0"),
)
