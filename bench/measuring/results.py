"""The results of a comparison: every round of every contender, and the figures from them."""

from dataclasses import dataclass, field
from statistics import median

from .rounds import Round, best, middle, paired


@dataclass(frozen=True, slots=True)
class Checked:
    """A checked conversion of a whole segment: the sent bytes, and their CRC."""

    records: int
    size: int
    crc: int


@dataclass(slots=True)
class Case:
    """One of our ways to convert a segment. Its rounds took turns with the other rounds of its
    `Result`.

    `exact`: the default, exact sizes, a response in one call. `estimate`: the same with Kafka's
    estimated sizes. `chunks`: exact sizes, one call for each chunk."""

    chunk_size: int
    compression_level: str
    checked: Checked
    exact: list[Round] = field(default_factory=list)
    estimate: list[Round] = field(default_factory=list)
    chunks: list[Round] = field(default_factory=list)
    reference: Round | None = None

    @property
    def exact_cost(self) -> float:
        """The time for a record with exact sizes, as a multiple of the time with estimates."""
        return paired(self.estimate, self.exact)

    @property
    def chunks_cost(self) -> float:
        """The time for a record with a call for each chunk, as a multiple of the time with one call
        for a response."""
        return paired(self.exact, self.chunks)

    @property
    def first_byte(self) -> float:
        """Seconds until a fetch under exact sizes sends its first byte."""
        return median(each.first_byte for each in self.chunks)


@dataclass(slots=True)
class Result:
    """All measurements on one shape."""

    shape: str
    rival: str  # the shape that Kafka converted: another one if it refuses this one
    cases: list[Case]
    kafka: list[Round] = field(default_factory=list)
    kafka_eager: list[Round] = field(default_factory=list)
    kafka_size: int = 0  # of all records, converted; 0: unknown
    clients: dict[str, Round] = field(default_factory=dict)

    def multiple(self, case: Case) -> float:
        """Best round against best round."""
        return best(case.exact) / best(self.kafka)

    def paired_multiple(self, case: Case) -> float:
        return paired(case.exact, self.kafka)


def millions(rounds: list[Round]) -> str:
    """The best rate, and the median in brackets."""
    return f"{best(rounds) / 1e6:.2f} ({middle(rounds) / 1e6:.2f})"
