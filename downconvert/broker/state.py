"""State that all requests of a broker share: topics, groups, transactions, delayed operations.

Not here: the requests and their handlers (broker.py, handlers/apis.py)."""

from collections.abc import Mapping

from downconvert.access.failed_logins import FailedLogins
from downconvert.access.guard import Guard
from downconvert.access.quotas import Quotas
from downconvert.access.rights import Access
from downconvert.broker.groups.coordinator import Groups
from downconvert.broker.groups.offsets import Offsets
from downconvert.broker.groups.offsets_topic import OffsetsTopic
from downconvert.broker.transactions.coordinator import Transactions
from downconvert.broker.transactions.counts import Counts
from downconvert.broker.transactions.markers import Markers
from downconvert.broker.transactions.state_topic import StateTopic
from downconvert.broker.transactions.sweep import Sweep
from downconvert.protocol.schemas import ApiKey
from downconvert.serving.conversions import Policies
from downconvert.serving.line_budget import LineBudget
from downconvert.serving.planning_slots import PlanningSlots
from downconvert.storage import LogDir
from records.budget import MemoryBudget

from .config import BrokerConfig
from .fetch.chunk_budget import ChunkBudget
from .fetch.conversion_cache import ConversionCache
from .fetch.fetch_session import FetchSessions
from .operating.metrics import Metrics
from .purgatory import Purgatory
from .time_of_day import TimeOfDay
from .topics import Topics
from .transactions.producer_ids import ProducerIds


class BrokerState:
    """The state of one broker. Each handler gets it with a request. Thread-safe."""

    def __init__(self, log_dir: LogDir, config: BrokerConfig | None = None) -> None:
        self.config = config or BrokerConfig()
        self.time_of_day = TimeOfDay()
        self.topics = Topics(log_dir, self.config)
        self.producer_ids = ProducerIds(self.topics, self.config.node_id)
        self.purgatory = Purgatory()
        self.groups = self._groups()
        self.fetch_sessions = FetchSessions(self.config.fetch_session_slots)
        self.memory_budget = MemoryBudget(self.config.conversions_kept_bytes)
        self.conversion_cache = ConversionCache(self.memory_budget)
        self.metrics = Metrics(self.fetch_sessions, self.purgatory)
        self.transactions = self._transactions()
        self._sweep = Sweep(self.transactions, self.config, self.purgatory)
        self.chunk_budget = ChunkBudget(self.config.policy)
        self.policies = Policies(self.config.recode_rules)
        self.planning_slots = PlanningSlots()
        self.guard = Guard()  # may be replaced; new connections then use the new one
        self.failed_logins = FailedLogins()
        self.quotas = Quotas()
        self.lines = LineBudget()
        self.versions: Mapping[ApiKey, range] = {}  # the served versions
        # Encoded responses to ApiVersions, by the client's rights, the version, and whether the
        # client misreads some versions of Fetch. Cleared when `versions` changes.
        self.version_responses: dict[tuple[Access, int, bool], bytes] = {}

    def _groups(self) -> Groups:
        """The group coordinator, with the groups in the log directory."""
        config, topics, time_of_day = self.config, self.topics, self.time_of_day
        kept_in = OffsetsTopic(config, topics, self.purgatory, time_of_day)
        offsets = Offsets(kept_in, topics, time_of_day, is_writable=config.is_writable)
        return Groups(config, offsets, self.purgatory, time_of_day)

    def _transactions(self) -> Transactions:
        """The transaction coordinator, with the transactional ids in the log directory."""
        config, topics, time_of_day = self.config, self.topics, self.time_of_day
        return Transactions(
            config,
            topics,
            StateTopic(config, topics, self.purgatory, time_of_day),
            Markers(topics, self.groups, self.purgatory),
            self.producer_ids,
            time_of_day,
            Counts(self.metrics),
        )
