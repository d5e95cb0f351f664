"""Which topics and groups are internal: programs keep their positions and counts in them.

Lists leave them out until a user asks for them; the flow map and the totals always do.
"""

from typing import Final

from headrace.audit.record import TOPIC as AUDIT_TOPIC
from headrace.console.change_log import TOPIC as CHANGES_TOPIC
from headrace.flow.remote.topic_name import REQUESTS, RUNS
from headrace.gateway.kinesis.store.stream_topic import STREAM_TOPIC
from headrace.gateway.registry.store.schema_topic import DEFAULT_TOPIC as SCHEMA_TOPIC
from headrace.ingest.kafka.topic_writer import POSITIONS_TOPIC
from headrace.spark.sink.option import DEFAULT_PREFIX as SINK_PREFIX

# A sink's group commits the number of its last batch instead of an offset, and its staging topic
# holds records that no transaction has written to their target yet.
_PREFIXES: Final = ("__", f"{SINK_PREFIX}-")
_TOPICS: Final = frozenset(
    {AUDIT_TOPIC, CHANGES_TOPIC, POSITIONS_TOPIC, RUNS, REQUESTS, SCHEMA_TOPIC, STREAM_TOPIC}
)


def is_internal_topic(name: str) -> bool:
    return name.startswith(_PREFIXES) or name in _TOPICS


def is_internal_group(name: str) -> bool:
    return name.startswith(_PREFIXES)
