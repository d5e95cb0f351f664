"""The settings of a group coordinator, under Kafka's names and with Kafka's defaults."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.model.group_config import HEARTBEAT_INTERVAL_MS, SESSION_TIMEOUT_MS

_DAY_MS = 24 * 60 * 60 * 1000
_INT_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """The coordinator's settings. A dot of Kafka's key is an underscore here: `group.max.size` is
    `group_max_size`.

    `offsets_retention_ms` is `offsets.retention.minutes` in milliseconds. `own` are the keys that
    were set for single groups, by group; the broker changes them while it runs.
    `append_retry_backoff_ms` and `new_member_join_timeout_ms` are fixed in Kafka's code, not keys.
    """

    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_initial_rebalance_delay_ms: int = 3_000
    group_max_size: int = _INT_MAX
    group_consumer_session_timeout_ms: int = 45_000
    group_consumer_heartbeat_interval_ms: int = 5_000
    group_consumer_max_size: int = _INT_MAX
    group_consumer_migration_policy: str = "bidirectional"
    group_consumer_assignors: tuple[str, ...] = ("uniform", "range")
    offset_metadata_max_bytes: int = 4_096
    offsets_commit_timeout_ms: int = 5_000
    offsets_retention_ms: int = 7 * _DAY_MS
    new_member_join_timeout_ms: int = 300_000
    append_retry_backoff_ms: int = 500
    own: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    def consumer_session_timeout_ms(self, group_id: str) -> int:
        """Return when a silent member of a KIP-848 group is removed."""
        own = self.own.get(group_id, {})
        return own.get(SESSION_TIMEOUT_MS, self.group_consumer_session_timeout_ms)

    def consumer_heartbeat_interval_ms(self, group_id: str) -> int:
        """Return how often the members of a KIP-848 group report."""
        own = self.own.get(group_id, {})
        return own.get(HEARTBEAT_INTERVAL_MS, self.group_consumer_heartbeat_interval_ms)

    @property
    def may_upgrade(self) -> bool:
        """Whether a classic group with members may become a group of the consumer protocol."""
        return self.group_consumer_migration_policy.lower() in ("upgrade", "bidirectional")

    @property
    def may_downgrade(self) -> bool:
        """Whether a group becomes classic when only members of the classic protocol are left."""
        return self.group_consumer_migration_policy.lower() in ("downgrade", "bidirectional")
