"""How a key of the broker is declared, and the units and bounds that defaults are written in."""

from typing import Any

from headrace.model.config import ConfigKey, ConfigType, ConfigValue

MINUTE_MS = 60 * 1000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1


def broker_key(
    name: str, type_: ConfigType, default: ConfigValue, doc: str, **rest: Any
) -> ConfigKey:
    """Declare one key, which cannot change while the broker runs unless `dynamic` is set."""
    rest.setdefault("dynamic", False)
    return ConfigKey(name=name, type=type_, default=default, doc=doc, **rest)
