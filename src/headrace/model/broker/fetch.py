"""Limits of Fetch."""

from headrace.model.broker.key import broker_key
from headrace.model.config import ConfigType

FETCH_KEYS = [
    broker_key(
        "fetch.max.bytes",
        ConfigType.INT,
        55 * 1024 * 1024,
        "The most a single fetch answers, whatever the client asks for.",
        minimum=1024,
    ),
    broker_key(
        "max.incremental.fetch.session.cache.slots",
        ConfigType.INT,
        1000,
        "Fetch sessions (KIP-227) kept at once.",
        minimum=0,
    ),
]
