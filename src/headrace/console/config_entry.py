"""A configuration key as the page shows it, with its description from the configuration tables."""

from typing import Any

from headrace.client.admin.admin import ConfigEntry
from headrace.model.config import ConfigTable


def as_json(entry: ConfigEntry, table: ConfigTable) -> dict[str, Any]:
    """Return a key for the page. Keys that only Apache Kafka has come without a description."""
    key = table.keys.get(entry.name)
    return {
        "name": entry.name,
        "value": entry.value,
        "source": entry.source.name.lower(),
        "default": entry.is_default,
        "read_only": entry.read_only,
        "sensitive": entry.sensitive,
        "doc": "" if key is None else key.doc,
        "type": "" if key is None else key.type.name.lower(),
        "choices": [] if key is None else list(key.choices),
    }
