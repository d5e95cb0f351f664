"""What a user must have to send a request. Every route names one."""

from enum import Enum, auto


class Right(Enum):
    """A right, to what the path names."""

    LOGIN = auto()
    """A name. What is shown is only what the user may see."""

    BODY = auto()
    """A name, and rights to the topics that the body names: the handler checks them."""

    DESCRIBE = auto()
    """Any right to the topic."""

    READ = auto()
    """Reads records of the topic."""

    WRITE = auto()
    """Writes records to the topic."""

    ADMIN = auto()
    """Changes or deletes the topic."""

    GROUP = auto()
    """Uses the consumer group. Handlers check the topics that its members read."""

    CLUSTER = auto()
    """Administers the cluster: `admin:*`."""
