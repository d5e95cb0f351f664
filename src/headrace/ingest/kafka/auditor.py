"""Counts the records of an agent's Kafka sinks and sources for the audit (docs/audit.md).

The settings belong to a component, or to the whole agent: `a1.audit = on`. `auto`, the default,
counts if the audit topic exists. A sink is the first to write its records, so it counts as the tier
`producer`; a source that reads topics counts as a tier with the agent's name. A process that is
killed loses the counts of its last seconds.
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
        "Count for the audit (docs/audit.md): auto (if its topic exists), on, off.",
        "auto",
        choices=("auto", "on", "off"),
    ),
    text("audit.tier", "Count as this tier."),
    number("audit.bucketMs", "Length of a bucket; default: that of the cluster.", minimum=1),
    text("audit.topic", "Where counts are written.", TOPIC),
)


class Auditor:
    """Counts for one component, from its start to its stop.

    Args:
        tier: the tier to count as, unless the settings name another.
        begins: whether earlier records may exist that the component does not see.
    """

    def __init__(
        self, settings: Settings, client: ClientSettings, tier: str, *, begins: bool = False
    ) -> None:
        bucket_ms = settings.optional("audit.bucketMs")
        switch = settings.text("audit")
        self._bucket_ms = None if bucket_ms is None else int(bucket_ms)
        self._tier = settings.optional("audit.tier") or tier
        self._topic = settings.text("audit.topic")
        self._is_auto = switch == "auto" and settings.optional("audit.tier") is None
        self._off = switch == "off"
        self._client = client
        self._begins = begins
        self._reporter: Reporter | None = None

    def start(self) -> Tally | None:
        """Start counting, and return the tally to count in; None if the audit is off.

        Raises:
            ClientError: the cluster cannot be asked.
        """
        if self._off or not self._tier:
            return None
        bucket_ms = self._bucket_ms
        if self._is_auto or bucket_ms is None:
            of_cluster = self._find_bucket_ms()
            if of_cluster is None and self._is_auto:
                return None
            bucket_ms = bucket_ms or of_cluster or DEFAULT_BUCKET_MS
        tally = Tally(self._tier, bucket_ms=bucket_ms, begins=self._begins)
        self._reporter = Reporter(
            tally,
            self._client,
            topic=self._topic,
            # A user with short buckets watches the counts: report often.
            interval_seconds=min(INTERVAL_SECONDS, bucket_ms / 5_000),
        )
        self._reporter.start()
        return tally

    def _find_bucket_ms(self) -> int | None:
        try:
            return find_bucket_ms(self._client, self._topic)
        except BrokerError as error:
            # A component without permission for the audit topic still does its work.
            _log.warning("audit_topic_not_visible", topic=self._topic, reason=str(error))
            return None

    def stop(self) -> None:
        """Write the remaining counts. A second call does nothing."""
        reporter, self._reporter = self._reporter, None
        if reporter is not None:
            reporter.close()
