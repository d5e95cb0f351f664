"""How an agent's Kafka sinks and sources count for the audit (docs/audit.md).

The settings stand at a part, or once for the whole agent: `a1.audit = on`. `auto`, the default,
counts if the audit topic is there already: somebody wants to know. A sink is the first to write
what it writes, so it is the tier `producer`; a source that reads topics is a tier of the agent's
name. Counts of the last seconds are lost with a process that is killed.
"""

from typing import Final

import structlog

from headrace.audit.bucket_length import find_bucket_ms
from headrace.audit.record import DEFAULT_BUCKET_MS, TOPIC
from headrace.audit.reporter import INTERVAL_SECONDS, Reporter
from headrace.audit.tally import Tally
from headrace.client.error import BrokerError
from headrace.client.settings import ClientSettings
from headrace.ingest.settings import Setting, Settings, number, text

_log = structlog.get_logger(__name__)

AUDIT_SETTINGS: Final[tuple[Setting, ...]] = (
    text(
        "audit",
        "Count for the audit (docs/audit.md): auto does if its topic is there, on, off.",
        "auto",
        choices=("auto", "on", "off"),
    ),
    text("audit.tier", "Count, as this tier."),
    number("audit.bucketMs", "Length of a bucket of counts; that of the cluster's.", minimum=1),
    text("audit.topic", "Where counts are written.", TOPIC),
)


class Auditor:
    """Counts for one part, from its start to its stop.

    Args:
        tier: the one to count as, unless the settings name another.
        begins: whether there may be records before that this part never sees.
    """

    def __init__(
        self, settings: Settings, client: ClientSettings, tier: str, *, begins: bool = False
    ) -> None:
        told = settings.optional("audit.bucketMs")
        switch = settings.text("audit")
        self._bucket_ms = None if told is None else int(told)
        self._tier = settings.optional("audit.tier") or tier
        self._topic = settings.text("audit.topic")
        self._asks = switch == "auto" and settings.optional("audit.tier") is None
        self._off = switch == "off"
        self._client = client
        self._begins = begins
        self._reporter: Reporter | None = None

    def start(self) -> Tally | None:
        """The tally to count in; None: nobody wants to know.

        Raises:
            ClientError: the cluster does not say.
        """
        if self._off or not self._tier:
            return None
        bucket_ms = self._bucket_ms
        if self._asks or bucket_ms is None:
            found = self._find_bucket_ms()
            if found is None and self._asks:
                return None
            bucket_ms = bucket_ms or found or DEFAULT_BUCKET_MS
        tally = Tally(self._tier, bucket_ms=bucket_ms, begins=self._begins)
        self._reporter = Reporter(
            tally,
            self._client,
            topic=self._topic,
            # Short buckets are for somebody who watches.
            interval_seconds=min(INTERVAL_SECONDS, bucket_ms / 5_000),
        )
        self._reporter.start()
        return tally

    def _find_bucket_ms(self) -> int | None:
        try:
            return find_bucket_ms(self._client, self._topic)
        except BrokerError as error:
            # Whoever may not see the topic does its work all the same.
            _log.warning("audit_topic_not_seen", topic=self._topic, reason=str(error))
            return None

    def stop(self) -> None:
        """Write the rest. Harmless twice."""
        reporter, self._reporter = self._reporter, None
        if reporter is not None:
            reporter.close()
