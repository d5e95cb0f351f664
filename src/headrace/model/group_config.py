"""The configuration of a consumer group (KIP-848), with Kafka's names and defaults."""

from collections.abc import Mapping

from headrace.model.config import ConfigKey, ConfigTable, ConfigType, ConfigValue
from headrace.model.error import ConfigError

HEARTBEAT_INTERVAL_MS = "consumer.heartbeat.interval.ms"
SESSION_TIMEOUT_MS = "consumer.session.timeout.ms"

_COMPATIBLE = "Taken for compatibility."
_NO_SHARE = "share groups are not served"
_NO_STREAMS = "streams groups are not served"


def _ignored(name: str, type_: ConfigType, default: ConfigValue, reason: str) -> ConfigKey:
    return ConfigKey(name=name, type=type_, default=default, doc=_COMPATIBLE, without_effect=reason)


GROUP_CONFIG = ConfigTable.of(
    "a group",
    [
        ConfigKey(
            name=HEARTBEAT_INTERVAL_MS,
            type=ConfigType.INT,
            default=5000,
            doc="How often the members of this group report.",
            minimum=1,
            broker_default="group.consumer.heartbeat.interval.ms",
        ),
        ConfigKey(
            name=SESSION_TIMEOUT_MS,
            type=ConfigType.INT,
            default=45_000,
            doc="When a member of this group that does not report is removed.",
            minimum=1,
            broker_default="group.consumer.session.timeout.ms",
        ),
        _ignored("share.auto.offset.reset", ConfigType.STRING, "latest", _NO_SHARE),
        _ignored("share.heartbeat.interval.ms", ConfigType.INT, 5000, _NO_SHARE),
        _ignored("share.isolation.level", ConfigType.STRING, "read_uncommitted", _NO_SHARE),
        _ignored("share.record.lock.duration.ms", ConfigType.INT, 30_000, _NO_SHARE),
        _ignored("share.session.timeout.ms", ConfigType.INT, 45_000, _NO_SHARE),
        _ignored("streams.heartbeat.interval.ms", ConfigType.INT, 5000, _NO_STREAMS),
        _ignored("streams.initial.rebalance.delay.ms", ConfigType.INT, 3000, _NO_STREAMS),
        _ignored("streams.num.standby.replicas", ConfigType.INT, 0, _NO_STREAMS),
        _ignored("streams.session.timeout.ms", ConfigType.INT, 45_000, _NO_STREAMS),
    ],
)


def check_group_config(
    values: Mapping[str, ConfigValue], broker: Mapping[str, ConfigValue]
) -> None:
    """Check the values of a group against the bounds of the broker.

    Raises:
        ConfigError: a value is out of bounds, or a session would end between two heartbeats.

    >>> check_group_config({}, {})
    """
    for name in (HEARTBEAT_INTERVAL_MS, SESSION_TIMEOUT_MS):
        value = values.get(name)
        if isinstance(value, int):
            what = name.removeprefix("consumer.")
            _check_bound(name, value, broker, f"group.consumer.min.{what}", below=True)
            _check_bound(name, value, broker, f"group.consumer.max.{what}", below=False)
    heartbeat_ms, session_ms = (
        values.get(name, broker.get(f"group.{name}"))
        for name in (HEARTBEAT_INTERVAL_MS, SESSION_TIMEOUT_MS)
    )
    if not values or not isinstance(heartbeat_ms, int) or not isinstance(session_ms, int):
        return
    if heartbeat_ms >= session_ms:
        raise ConfigError(
            f"{HEARTBEAT_INTERVAL_MS} ({heartbeat_ms}) must be below {SESSION_TIMEOUT_MS} "
            f"({session_ms})"
        )


def _check_bound(
    name: str, value: int, broker: Mapping[str, ConfigValue], bound: str, *, below: bool
) -> None:
    limit = broker.get(bound)
    if isinstance(limit, int) and (value < limit if below else value > limit):
        side = "below" if below else "above"
        raise ConfigError(
            f"{name} cannot be {value}: that is {side} {bound} of the broker, {limit}"
        )
