"""Whether a flow counts what it reads, for the audit; a flow is a tier of its own name.

The settings are `audit` (`auto`, `on` or `off`), `audit.tier`, `audit.bucketMs`, `audit.topic`.
`auto`, the default, counts if the audit topic is there when the flow starts: somebody wants to
know.

What is read is counted where it is read, in Spark's tasks, under names that a batch which is done
again has too (`headrace.audit.range_tally`); the driver has no part in it.
"""

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from headrace.audit.record import DEFAULT_BUCKET_MS, TOPIC
from headrace.client.error import ClientError
from headrace.client.settings import ClientSettings
from headrace.flow.error import FlowError
from headrace.flow.plan.plan import Component, Kind, Plan

AUDIT: Final = "audit"
SETTINGS: Final = (AUDIT, "audit.tier", "audit.bucketMs", "audit.topic")
_WORDS: Final = {"auto": None, "on": True, "true": True, "off": False, "false": False}
# A cluster that does not answer will be told of by the flow itself.
_LOOK_MS: Final = "10000"


def audit_options(
    flow: str, settings: Mapping[str, str], client: Mapping[str, str]
) -> dict[str, str]:
    """The options by which a source counts for a flow; none: it does not.

    Args:
        client: how to reach the cluster that is read, as `ClientSettings.of` takes it.

    Raises:
        FlowError: a setting that cannot be meant.
    """
    wanted = _wanted(settings)
    if wanted is False:
        return {}
    topic = settings.get("audit.topic", TOPIC)
    told = settings.get("audit.bucketMs")
    bucket_ms: int | str | None = told
    if told is None or wanted is None:
        # Only here: it takes the record kernels along, and most who load this never look.
        from headrace.audit.bucket_length import find_bucket_ms

        look = {**client, "default.api.timeout.ms": _LOOK_MS}
        try:
            found = find_bucket_ms(ClientSettings.of(look), topic)
        except ClientError:
            found = None
        if found is None and wanted is None:
            return {}
        bucket_ms = told or found or DEFAULT_BUCKET_MS
    return {
        "audit.tier": settings.get("audit.tier", flow),
        "audit.bucketMs": str(bucket_ms),
        "audit.topic": topic,
    }


def _wanted(settings: Mapping[str, str]) -> bool | None:
    """On, off, or None: as the cluster has it."""
    text = settings.get(AUDIT, "auto").strip().lower()
    if text not in _WORDS:
        raise FlowError(f"the setting audit cannot be {text!r}: write auto, on or off")
    if AUDIT not in settings and any(each in settings for each in SETTINGS):
        return True
    return _WORDS[text]


def audited(plan: Plan) -> Plan:
    """The plan, whose spouts count if they are to.

    Two spouts on one topic read it twice: the first one counts it.
    """
    components: dict[str, Component] = {}
    counted: set[tuple[str, str]] = set()
    for name, each in plan.components.items():
        components[name] = each
        topics = {(each.work.brokers, topic) for topic in _topics(each)}
        if topics and not topics & counted:
            counted |= topics
            components[name] = replace(each, work=_counting(plan, each.work))
    return replace(plan, components=components)


def _topics(component: Component) -> tuple[str, ...]:
    """Of a spout on topics that does not count on its own account."""
    options = getattr(component.work, "options", None)
    if component.kind is not Kind.SPOUT or options is None or "audit.tier" in options:
        return ()
    return tuple(getattr(component.work, "topics", ()))


def _counting(plan: Plan, spout: Any) -> Any:
    kafka = {
        key.removeprefix("kafka."): text
        for key, text in {**spout.options, "kafka.bootstrap.servers": spout.brokers}.items()
        if key.startswith("kafka.")
    }
    from headrace.spark.kafka_option import client_texts

    options = audit_options(plan.name, plan.settings, client_texts(kafka, _NOT_THE_CLIENTS))
    if not options:
        return spout
    counting = copy.copy(spout)
    counting.options = {**spout.options, **options}
    return counting


# Options of the source under Kafka's names, which the client does not have.
_NOT_THE_CLIENTS: Final = ("group.id", "isolation.level")
