"""The settings that all change capture sources have, with Debezium's names and defaults."""

from typing import Any

from headrace.ingest.cdc.envelope import EnvelopeOptions
from headrace.ingest.cdc.json_value import DECIMAL_MODES
from headrace.ingest.settings import Setting, Settings, flag, number, text

CAPTURE_SETTINGS: tuple[Setting, ...] = (
    text("topic.prefix", "The first part of the topics' names.", required=True),
    text(
        "snapshot.mode",
        "initial reads the tables first; no_data only streams.",
        "initial",
        choices=("initial", "no_data"),
    ),
    flag("tombstones.on.delete", "A delete is followed by a record without a value.", True),
    text(
        "decimal.handling.mode",
        "How decimal numbers are written.",
        "precise",
        choices=DECIMAL_MODES,
    ),
    text("skipped.operations", "Operations without events: c, u, d, t or none.", "t"),
    text(
        "unavailable.value.placeholder",
        "The text for a value that the database did not send.",
        "__debezium_unavailable_value",
    ),
    flag("schemas.enable", "Keys and values carry their schemas.", False),
    flag("provide.transaction.metadata", "Events say which transaction they belong to.", False),
    number("heartbeat.interval.ms", "Between two positions without events.", 10_000, minimum=100),
    number("batchSize", "Most events in one transaction.", 100, minimum=4),
    flag("exactlyOnce", "Always true: the position is stored with the events.", True),
)


def envelope_options(settings: Settings, source_schema: dict[str, Any]) -> EnvelopeOptions:
    """Return how changes become events.

    Raises:
        SettingError: a value cannot be used.
    """
    if not settings.flag("exactlyOnce"):
        raise settings.wrong(
            "exactlyOnce",
            "exactlyOnce = false is not supported: the position is stored with the events; "
            "remove the line",
        )
    skipped = settings.text("skipped.operations").replace(" ", "").split(",")
    if skipped != ["none"] and not set(skipped) <= set("cudt"):
        raise settings.wrong(
            "skipped.operations", "skipped.operations must be none, or some of c, u, d and t"
        )
    return EnvelopeOptions(
        prefix=settings.text("topic.prefix"),
        source_schema=source_schema,
        tombstones=settings.flag("tombstones.on.delete"),
        schemas=settings.flag("schemas.enable"),
        skipped=frozenset(skipped),
    )
