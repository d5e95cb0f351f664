"""The names of topics and schemas of captured tables, as Debezium forms them."""

import re
from typing import Final

_TOPIC: Final = re.compile(r"[^A-Za-z0-9._-]")
_SCHEMA: Final = re.compile(r"[^A-Za-z0-9._]")


def topic_of(prefix: str, schema: str, table: str) -> str:
    """Return the topic of a table; characters that topics do not have become underscores.

    >>> topic_of("shop", "public", "line items")
    'shop.public.line_items'
    """
    return _TOPIC.sub("_", f"{prefix}.{schema}.{table}")


def schema_name(topic: str, part: str) -> str:
    """Return the name of a schema: `part` is Key, Value or Envelope.

    >>> schema_name("shop.public.line-items", "Key")
    'shop.public.line_items.Key'
    """
    return f"{_SCHEMA.sub('_', topic)}.{part}"


def transaction_topic(prefix: str) -> str:
    """Return the topic of the begins and ends of transactions."""
    return _TOPIC.sub("_", f"{prefix}.transaction")
