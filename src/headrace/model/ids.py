"""Names of things. A `NewType` each, so that the wrong id does not type-check."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass
from typing import NewType
from uuid import UUID, uuid4

BrokerId = NewType("BrokerId", int)
LeaderEpoch = NewType("LeaderEpoch", int)
ProducerEpoch = NewType("ProducerEpoch", int)
ProducerId = NewType("ProducerId", int)
TopicId = NewType("TopicId", UUID)

NO_LEADER_EPOCH = LeaderEpoch(-1)
NO_PRODUCER_EPOCH = ProducerEpoch(-1)
NO_PRODUCER_ID = ProducerId(-1)
NO_SEQUENCE = -1

# Kafka's limits for a topic's name: it becomes a directory, with "-<partition>" behind it.
TOPIC_NAME_MAX_LENGTH = 249
_TOPIC_NAME_CHARACTERS = frozenset(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
)


@dataclass(frozen=True, slots=True, order=True)
class TopicPartition:
    """One partition of one topic. Prints, and names its directory, as Kafka does: `clicks-0`."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"

    @classmethod
    def parse(cls, name: str) -> "TopicPartition":
        """Parse what `str()` returns. A topic may hold dashes itself: the last one separates.

        >>> TopicPartition.parse("page-views-11")
        TopicPartition(topic='page-views', partition=11)
        """
        topic, dash, partition = name.rpartition("-")
        if not dash or not topic or not (partition.isascii() and partition.isdigit()):
            raise ValueError(f"{name!r} is not a topic and a partition: write it as 'clicks-0'")
        return cls(topic, int(partition))


def topic_name_problem(name: str) -> str | None:
    """Return why `name` cannot name a topic, or None when it can.

    The rules also keep a client from choosing a path: no separator, no `.` and no `..`.
    """
    if not name:
        return "a topic's name cannot be empty"
    if name in (".", ".."):
        return f"a topic cannot be called {name!r}"
    if len(name) > TOPIC_NAME_MAX_LENGTH:
        return (
            f"a topic's name has at most {TOPIC_NAME_MAX_LENGTH} characters, this has {len(name)}"
        )
    if not _TOPIC_NAME_CHARACTERS.issuperset(name):
        return f"topic {name!r} may hold only letters, digits, '.', '_' and '-'"
    return None


def uuid_text(uuid: UUID) -> str:
    """Return a UUID as Kafka prints it: base64url without padding, 22 characters.

    >>> uuid_text(UUID("f47ac10b-58cc-4372-a567-0e02b2c3d479"))
    '9HrBC1jMQ3KlZw4CssPUeQ'
    """
    return urlsafe_b64encode(uuid.bytes).rstrip(b"=").decode("ascii")


def parse_uuid_text(text: str) -> UUID:
    """Parse what `uuid_text` returns.

    Raises:
        ValueError: in one sentence that shows the text.
    """
    try:
        data = urlsafe_b64decode(text.encode("ascii") + b"==")
    except ValueError:
        data = b""
    if len(data) != 16 or uuid_text(UUID(bytes=data)) != text:
        raise ValueError(f"{text!r} is not a UUID in 22 base64url characters")
    return UUID(bytes=data)


def random_uuid() -> UUID:
    """Return a new UUID whose text does not begin with a dash, like an option of a command."""
    while uuid_text(uuid := uuid4()).startswith("-"):
        pass
    return uuid
