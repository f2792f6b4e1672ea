"""The suites, in the order of the table. To add one, add a file beside this one, and a line
here."""

from typing import Final

from .franz_go import FranzGo
from .kafka_go import KafkaGo
from .kafka_python import KafkaPython
from .kafka_tools import KafkaTools
from .librdkafka import Librdkafka
from .sarama import Sarama
from .suite import Suite

SUITES: Final[tuple[Suite, ...]] = (
    FranzGo(),
    KafkaGo(),
    Sarama(),
    KafkaTools(),
    KafkaPython("kafka-python", "kafka-python"),
    KafkaPython("kafka-python-0.10.2", "kafka-python as for 0.10.2.2", "0.10.2.2"),
    Librdkafka("librdkafka", "librdkafka", of_old_clients=False),
    Librdkafka("librdkafka-0.9", "librdkafka as a client of 0.9", of_old_clients=True),
)
