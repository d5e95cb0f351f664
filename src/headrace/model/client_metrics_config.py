"""A subscription to metrics that clients push (KIP-714), with Kafka's names and defaults."""

import re
from collections.abc import Mapping

from headrace.model.config import ConfigKey, ConfigTable, ConfigType, ConfigValue
from headrace.model.error import ConfigError

INTERVAL_MS = "interval.ms"
MATCH = "match"
METRICS = "metrics"

DEFAULT_INTERVAL_MS = 300_000
"""Of a subscription, and of a client without one until it asks again."""

MATCHED = (
    "client_id",
    "client_instance_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)
"""What a client can be matched by."""

CLIENT_METRICS_CONFIG = ConfigTable.of(
    "a subscription to clients' metrics",
    [
        ConfigKey(
            name=INTERVAL_MS,
            type=ConfigType.INT,
            default=DEFAULT_INTERVAL_MS,
            doc="How often clients push their metrics.",
            minimum=100,
            maximum=3_600_000,
        ),
        ConfigKey(
            name=MATCH,
            type=ConfigType.LIST,
            default=(),
            doc="Which clients: NAME=REGEX, separated by commas, of "
            + ", ".join(MATCHED)
            + "; all must match. Empty means every client.",
        ),
        ConfigKey(
            name=METRICS,
            type=ConfigType.LIST,
            default=(),
            doc="Which metrics: the beginnings of their names, separated by commas; * means all.",
        ),
    ],
)


def check_client_metrics(values: Mapping[str, ConfigValue]) -> None:
    """Check what a table cannot: the patterns by which clients are matched.

    Raises:
        ConfigError: a pattern that cannot be.
    """
    match_patterns(values.get(MATCH, ()))


def match_patterns(match: ConfigValue) -> dict[str, re.Pattern[str]]:
    """Return the patterns of `match`, by what they are matched with.

    >>> match_patterns(("client_id=orders.*",))
    {'client_id': re.compile('orders.*')}
    """
    patterns: dict[str, re.Pattern[str]] = {}
    for item in match if isinstance(match, tuple) else ():
        name, sign, pattern = item.partition("=")
        if not sign or name.strip() not in MATCHED:
            raise ConfigError(
                f"{MATCH} cannot hold {item!r}: write NAME=REGEX, with one of {', '.join(MATCHED)}"
            )
        try:
            patterns[name.strip()] = re.compile(pattern.strip())
        except re.error as error:
            raise ConfigError(f"{MATCH} cannot hold {item!r}: {error}") from None
    return patterns
