"""Settings for validating and appending records of producers.

Not here: the settings of topics (broker/topic_configs.py), validating (appending.py)."""

from dataclasses import dataclass

from records.codecs import CodecLevel
from records.formats import Codec


@dataclass(frozen=True, slots=True)
class AppendConfig:
    """How records are validated and appended. Sizes in bytes, times in milliseconds."""

    magic: int
    codec: Codec | None  # None: the producer's
    level: CodecLevel  # for compression in `codec`
    is_compacted: bool
    is_append_time: bool
    message_size_max: int
    before_max: int  # how far a timestamp may be before the clock
    after_max: int
    min_insync_replicas: int
