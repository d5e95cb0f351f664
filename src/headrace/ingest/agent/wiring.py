"""How an agent hangs together, as its monitor tells beside the numbers: of what type a part is,
which channels it has, which topics it reads or writes, where else its events go.

Flume's own monitor has no such texts; who reads ours must do without them. Only settings that say
where are told: never one that could hold a password.
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
# What is text where everything else is a number.
TEXTS: Final = frozenset({"Type", TOPICS, GROUP, CHANNELS, PLACE, COMPONENT})

_TOPIC_SETTINGS: Final = ("kafka.topic", "kafka.topics")
_GROUP_SETTING: Final = "kafka.consumer.group.id"
_PLACE_SETTINGS: Final = ("hdfs.path", "sink.directory", "spoolDir", "table")


def wiring(assembly: Assembly, kind: str, name: str) -> dict[str, str]:
    """The texts of one part.

    Args:
        kind: SOURCE, CHANNEL or SINK.
    """
    plan = assembly.plan
    if kind == "SOURCE":
        component: Component = assembly.sources[name]
        source = plan.sources[name]
        found = {COMPONENT: simple_name(source.component.type), CHANNELS: " ".join(source.channels)}
    elif kind == "SINK":
        component, sink = assembly.sinks[name], plan.sinks[name]
        found = {COMPONENT: simple_name(sink.component.type), CHANNELS: sink.channel}
    else:
        component = assembly.channels[name]
        found = {COMPONENT: simple_name(plan.channels[name].type)}
    declared = {each.name for each in component.SETTINGS}

    def told(*names: str) -> str:
        texts = (component.settings.optional(each) for each in names if each in declared)
        return next((each for each in texts if each), "")

    topics = " ".join(told(*_TOPIC_SETTINGS).replace(",", " ").split())
    group = told(_GROUP_SETTING)
    place = told(*_PLACE_SETTINGS)
    if "hostname" in declared and "port" in declared:
        place = f"{told('hostname')}:{told('port')}"
    return found | {
        key: text for key, text in ((TOPICS, topics), (GROUP, group), (PLACE, place)) if text
    }
