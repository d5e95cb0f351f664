"""The connections of an agent's components, which the monitor reports beside the counters: the type
of a component, its channels, the topics it reads or writes, and other destinations.

Flume's monitor has no such texts, so readers must not rely on them. Only settings that name a
source or destination are reported: never one that could hold a password.
"""

from typing import Final

from headrace.ingest.agent.assembly import Assembly
from headrace.ingest.component import Component
from headrace.ingest.config.java_class import simple_name

TOPICS: Final = "Topics"
GROUP: Final = "Group"
CHANNELS: Final = "Channels"
PLACE: Final = "Place"
COMPONENT: Final = "Component"
# The fields that are texts; all others are numbers.
TEXTS: Final = frozenset({"Type", TOPICS, GROUP, CHANNELS, PLACE, COMPONENT})

_TOPIC_SETTINGS: Final = ("kafka.topic", "kafka.topics")
_GROUP_SETTING: Final = "kafka.consumer.group.id"
_PLACE_SETTINGS: Final = ("hdfs.path", "sink.directory", "spoolDir", "table")


def wiring(assembly: Assembly, kind: str, name: str) -> dict[str, str]:
    """Return the texts of one component.

    Args:
        kind: SOURCE, CHANNEL or SINK.
    """
    plan = assembly.plan
    if kind == "SOURCE":
        component: Component = assembly.sources[name]
        source = plan.sources[name]
        texts = {COMPONENT: simple_name(source.component.type), CHANNELS: " ".join(source.channels)}
    elif kind == "SINK":
        component, sink = assembly.sinks[name], plan.sinks[name]
        texts = {COMPONENT: simple_name(sink.component.type), CHANNELS: sink.channel}
    else:
        component = assembly.channels[name]
        texts = {COMPONENT: simple_name(plan.channels[name].type)}
    declared = {each.name for each in component.SETTINGS}

    def first_of(*names: str) -> str:
        values = (component.settings.optional(each) for each in names if each in declared)
        return next((each for each in values if each), "")

    topics = " ".join(first_of(*_TOPIC_SETTINGS).replace(",", " ").split())
    group = first_of(_GROUP_SETTING)
    place = first_of(*_PLACE_SETTINGS)
    if "hostname" in declared and "port" in declared:
        place = f"{first_of('hostname')}:{first_of('port')}"
    return texts | {
        key: text for key, text in ((TOPICS, topics), (GROUP, group), (PLACE, place)) if text
    }
