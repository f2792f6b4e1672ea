"""Objects that the parts of one run share. The cluster makes them and passes them in."""

from collections.abc import Sequence
from dataclasses import dataclass

from downconvert.storage import TopicPartition

from .controller import Controller
from .network import Machine, Network
from .options import ClusterOptions
from .timeline import Timeline
from .truth import Truth


@dataclass(slots=True, kw_only=True)
class Context:
    """The objects that the parts share. assignment: the brokers of each partition's replicas.
    machines: by broker id. topic_id: of the only topic."""

    options: ClusterOptions
    timeline: Timeline
    network: Network
    controller: Controller
    truth: Truth
    assignment: dict[TopicPartition, tuple[int, ...]]
    machines: Sequence[Machine] = ()
    topic_id: bytes = bytes(16)
