"""Whether a flow counts the records that it reads, for the audit. Its tier is the flow's name.

The settings are `audit` (`auto`, `on` or `off`), `audit.tier`, `audit.bucketMs`, `audit.topic`.
`auto`, the default, counts if the audit topic exists when the flow starts.

Spark's tasks count the records that they read, under names that a repeated batch has too
(`headrace.audit.range_tally`). The driver has no part in it.
"""

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from headrace.audit.record import DEFAULT_BUCKET_MS, TOPIC
from headrace.client.error import ClientError
from headrace.client.settings import ClientSettings
from headrace.flow.error import FlowError
from headrace.flow.plan.plan import Kind, Plan, PlanComponent

AUDIT: Final = "audit"
SETTINGS: Final = (AUDIT, "audit.tier", "audit.bucketMs", "audit.topic")
_WORDS: Final = {"auto": None, "on": True, "true": True, "off": False, "false": False}
# Short: the flow itself reports a cluster that does not answer.
_LOOK_MS: Final = "10000"


def audit_options(
    flow: str, settings: Mapping[str, str], client: Mapping[str, str]
) -> dict[str, str]:
    """Return the options by which a source counts for a flow; empty if it does not count.

    Args:
        client: how to reach the cluster that is read, for `ClientSettings.of`.

    Raises:
        FlowError: a setting has no such value.
    """
    enabled = _enabled(settings)
    if enabled is False:
        return {}
    topic = settings.get("audit.topic", TOPIC)
    configured = settings.get("audit.bucketMs")
    bucket_ms: int | str | None = configured
    if configured is None or enabled is None:
        # Imported here: it loads the record kernels, which most callers do not need.
        from headrace.audit.bucket_length import find_bucket_ms

        look = {**client, "default.api.timeout.ms": _LOOK_MS}
        try:
            existing = find_bucket_ms(ClientSettings.of(look), topic)
        except ClientError:
            existing = None
        if existing is None and enabled is None:
            return {}
        bucket_ms = configured or existing or DEFAULT_BUCKET_MS
    return {
        "audit.tier": settings.get("audit.tier", flow),
        "audit.bucketMs": str(bucket_ms),
        "audit.topic": topic,
    }


def _enabled(settings: Mapping[str, str]) -> bool | None:
    """Return on or off; None if the audit topic of the cluster decides."""
    text = settings.get(AUDIT, "auto").strip().lower()
    if text not in _WORDS:
        raise FlowError(f"the setting audit cannot be {text!r}: write auto, on or off")
    if AUDIT not in settings and any(each in settings for each in SETTINGS):
        return True
    return _WORDS[text]


def audited(plan: Plan) -> Plan:
    """Return the plan with the options by which its spouts count, if they do.

    Two spouts on one topic read it twice: only the first one counts.
    """
    components: dict[str, PlanComponent] = {}
    counted: set[tuple[str, str]] = set()
    for name, each in plan.components.items():
        components[name] = each
        topics = {(each.work.brokers, topic) for topic in _topics(each)}
        if topics and not topics & counted:
            counted |= topics
            components[name] = replace(each, work=_counting(plan, each.work))
    return replace(plan, components=components)


def _topics(component: PlanComponent) -> tuple[str, ...]:
    """Return the topics of a spout that has no audit options of its own."""
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


# Options of the source under Kafka's names that the client does not know.
_NOT_THE_CLIENTS: Final = ("group.id", "isolation.level")
