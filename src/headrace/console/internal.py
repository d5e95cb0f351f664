"""Topics and groups that keep the books of programs, and hold nothing a person looks for.

They are left out of lists until somebody asks for them, and of the picture and the sums always.
"""

from typing import Final

from headrace.audit.record import TOPIC as AUDIT_TOPIC
from headrace.console.change_log import TOPIC as CHANGES_TOPIC
from headrace.ingest.kafka.topic_writer import POSITIONS_TOPIC
from headrace.spark.sink.option import DEFAULT_PREFIX as SINK_PREFIX

# A sink's group has the number of its last batch where others have an offset, and its staging topic
# has what no transaction has taken yet.
_PREFIXES: Final = ("__", f"{SINK_PREFIX}-")
_TOPICS: Final = frozenset({AUDIT_TOPIC, CHANGES_TOPIC, POSITIONS_TOPIC})


def is_internal_topic(name: str) -> bool:
    return name.startswith(_PREFIXES) or name in _TOPICS


def is_internal_group(name: str) -> bool:
    return name.startswith(_PREFIXES)
