"""Whether a leader that sends nothing thereby says that nothing is there.

With tiered storage it does not: a read of the remote part that takes too long is answered without
an error, without records and with the real high watermark (KIP-405). To take that for a gap would
lose what is there. A topic that is kept on its brokers alone is read at once, and what does not
come is not there.

So the topic's configuration is asked for when nothing comes for the first time, which is rare. It
may be kept from us: then a silence that lasts is believed, since ranges of compacted topics do end
in gaps, and a reader that may not see the configuration must come to its end too.
"""

from typing import Any, Final

from headrace.client.admin.admin import Admin, ResourceType
from headrace.client.error import BrokerError, ClientError, ConnectionLost, Unreachable
from headrace.client.network.pool import ConnectionPool
from headrace.wire.error import MalformedResponse

AT_ONCE: Final = 0.0
NEVER: Final = None
UNKNOWN_SECONDS: Final = 10.0
"""Kafka gives up a remote read after half a second (remote.fetch.max.wait.ms) and goes on with it
at the next fetch: many attempts must have failed."""


class GapEvidence:
    """What is known of topics whose leaders sent nothing.

    Args:
        pool: asked once for each topic; it must not be a patient one.
    """

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool
        self._known: dict[str, float | None] = {}

    def silent_seconds(self, topic: str) -> float | None:
        """How long a leader must have sent nothing until nothing is there, or `NEVER`."""
        if topic not in self._known:
            try:
                answer = Admin(self._pool).describe_configs(ResourceType.TOPIC, [topic]).get(topic)
            except (ConnectionLost, Unreachable, MalformedResponse):
                return UNKNOWN_SECONDS  # the next answer that has nothing is a new chance to ask
            except ClientError:
                answer = None
            self._known[topic] = _judged(answer)
        return self._known[topic]


def _judged(answer: list[Any] | BrokerError | None) -> float | None:
    if answer is None or isinstance(answer, BrokerError):
        return UNKNOWN_SECONDS
    values = {each.name: each.value or "" for each in answer}
    # Kafka refuses to compact a topic that it keeps elsewhere.
    policies = [each.strip() for each in values.get("cleanup.policy", "").split(",")]
    if "compact" in policies:
        return AT_ONCE
    remote = values.get("remote.storage.enable")
    if remote is None:
        return UNKNOWN_SECONDS
    return NEVER if remote.lower() == "true" else AT_ONCE
