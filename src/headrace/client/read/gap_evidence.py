"""Decides whether an empty fetch response means a gap in the log.

With tiered storage it does not: when a remote read takes too long, the leader responds without an
error, without records and with the real high watermark (KIP-405). A reader that took this for a gap
would skip records that exist. A topic that is stored on its brokers alone is read at once: a record
that is not in the response does not exist.

The reader therefore fetches the topic's configuration at the first empty response, which is rare.
It may have no right to see it. It then waits for several empty responses in a row and takes them
for a gap: ranges of compacted topics do end in gaps, and such a reader must reach its end too.
"""

from typing import Any, Final

from headrace.client.admin.admin import Admin
from headrace.client.error import BrokerError, ClientError, ConnectionLost, Unreachable
from headrace.client.network.pool import ConnectionPool
from headrace.model.config_code import ConfigResourceType
from headrace.wire.error import MalformedResponse

AT_ONCE: Final = 0.0
NEVER: Final = None
UNKNOWN_SECONDS: Final = 10.0
"""Kafka interrupts a remote read after half a second (remote.fetch.max.wait.ms) and continues it at
the next fetch. In this time many attempts must have failed."""


class GapEvidence:
    """How long each topic's leader must send empty responses until they mean a gap.

    Args:
        pool: fetches each topic's configuration once. It must not retry: the caller polls sockets.
    """

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool
        self._known: dict[str, float | None] = {}

    def silent_seconds(self, topic: str) -> float | None:
        """Return after how many seconds of empty responses a gap is certain, or `NEVER`."""
        if topic not in self._known:
            try:
                answer = (
                    Admin(self._pool).describe_configs(ConfigResourceType.TOPIC, [topic]).get(topic)
                )
            except (ConnectionLost, Unreachable, MalformedResponse):
                return UNKNOWN_SECONDS  # the next empty response tries again
            except ClientError:
                answer = None
            self._known[topic] = _silent_seconds(answer)
        return self._known[topic]


def _silent_seconds(answer: list[Any] | BrokerError | None) -> float | None:
    if answer is None or isinstance(answer, BrokerError):
        return UNKNOWN_SECONDS
    values = {each.name: each.value or "" for each in answer}
    # Kafka refuses to compact a topic with remote storage.
    policies = [each.strip() for each in values.get("cleanup.policy", "").split(",")]
    if "compact" in policies:
        return AT_ONCE
    remote = values.get("remote.storage.enable")
    if remote is None:
        return UNKNOWN_SECONDS
    return NEVER if remote.lower() == "true" else AT_ONCE
