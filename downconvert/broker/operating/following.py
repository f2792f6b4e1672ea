"""Follows a directory that another broker writes to: its topics and its high watermarks.

That broker writes its high watermarks every few seconds. Records above them are not shown, because
they may be lost when that broker loses its leadership. If there is no high watermark, the log's end
counts.

Not here: the log's end, which is read on each request (storage)."""

from typing import Final, TypeAlias

from downconvert.broker.broker import Broker
from downconvert.broker.topics import Topic, id_without_file
from downconvert.storage import StorageError
from downconvert.storage.names import HIGH_WATERMARKS
from records.logged import log_of

LOG: Final = log_of(__name__)
Stamp: TypeAlias = tuple[int, int]


class Following:
    """Keeps a read-only broker up to date with the broker that writes the directory.

    beyond_high_watermark: whether uncommitted records are shown, too."""

    def __init__(self, broker: Broker, *, beyond_high_watermark: bool = False) -> None:
        self._broker = broker
        self._beyond = beyond_high_watermark
        self._ends: dict[tuple[str, int], int] = {}
        # Recreated topics, each with the stamp of the file that may still have the old high
        # watermarks.
        self._outdated: dict[str, Stamp] = {}

    def refresh(self, now: float) -> None:
        """Reads the directory again, and notifies waiting fetches. Call it about once a second. For
        files that cannot be read now, the last state stays."""
        broker = self._broker
        try:
            self._refresh_topics(now)
            if not self._beyond:
                self._read_high_watermarks()
        except (OSError, StorageError) as error:
            LOG.warning("the directory cannot be read: %s", error)
        ends = {}
        for partition in broker.topics.partitions():
            name = (partition.name.topic, partition.name.partition)
            try:
                ends[name] = partition.high_watermark
            except (OSError, StorageError):  # it is being deleted
                continue
            if ends[name] != self._ends.get(name):
                broker.purgatory.notify(("partition", *name))
        self._ends = ends
        broker.complete_due(now)

    def _refresh_topics(self, now: float) -> None:
        topics = self._broker.topics
        before = {topic.name: topic.id for topic in topics.values()}
        topics.refresh()
        gone = {name for name, topic_id in before.items() if _is_gone(topics.get(name), topic_id)}
        self._broker.groups.forget_topics(gone, now)
        if not self._beyond:
            self._forget_high_watermarks(gone & topics.keys())

    def _forget_high_watermarks(self, made_again: set[str]) -> None:
        """Forgets the high watermarks of recreated topics until the other broker writes the file
        again."""
        stamp = self._stamp()
        if stamp is None:
            return
        for name in made_again:
            self._outdated[name] = stamp
            for partition in self._broker.topics[name].partitions.values():
                partition.committed_end = 0

    def _stamp(self) -> Stamp | None:
        """Identifies the content of the file of high watermarks. None: there is no file."""
        try:
            found = (self._broker.topics.log_dir.path / HIGH_WATERMARKS).stat()
        except FileNotFoundError:
            return None
        return found.st_ino, found.st_mtime_ns

    def _read_high_watermarks(self) -> None:
        stamp = self._stamp()
        if stamp is None:
            return
        noted = self._broker.topics.log_dir.high_watermarks
        self._outdated = {name: at for name, at in self._outdated.items() if at == stamp}
        for partition in self._broker.topics.partitions():
            if partition.name.topic in self._outdated:
                continue
            # A partition is not in the file for its first seconds.
            before = partition.committed_end or 0
            partition.committed_end = max(before, noted.get(partition.name, 0))


def _is_gone(topic: Topic | None, topic_id: bytes) -> bool:
    """Whether a topic was deleted or recreated. A topic gets its id a moment after its name."""
    if topic is None:
        return True
    return topic.id != topic_id and id_without_file(topic.name) not in (topic.id, topic_id)
