"""What an agent's monitor tells of how its parts hang together."""

from headrace.config.properties import parse_properties
from headrace.ingest.agent.assembly import Assembly, assemble
from headrace.ingest.agent.monitor import metrics, prometheus_text
from headrace.ingest.agent.wiring import TEXTS
from headrace.ingest.config.reader import plan_agent

AGENT = """
a.sources = old log
a.channels = c1 c2
a.sinks = out files
a.sources.old.type = org.apache.flume.source.kafka.KafkaSource
a.sources.old.channels = c1
a.sources.old.kafka.bootstrap.servers = b:1
a.sources.old.kafka.topics = clicks,views
a.sources.old.kafka.consumer.group.id = mover
a.sources.log.type = seq
a.sources.log.channels = c1 c2
a.channels.c1.type = memory
a.channels.c1.transactionCapacity = 1000
a.channels.c1.capacity = 1000
a.channels.c2.type = memory
a.sinks.out.type = kafka
a.sinks.out.channel = c1
a.sinks.out.kafka.bootstrap.servers = b:1
a.sinks.out.kafka.topic = copies
a.sinks.out.kafka.producer.sasl.password = hunter2
a.sinks.files.type = hdfs
a.sinks.files.channel = c2
a.sinks.files.hdfs.path = hdfs://lake/clicks
"""


def agent() -> Assembly:
    plan, problems = plan_agent(parse_properties(AGENT, {}), "a")
    assembly = assemble(plan)
    assert not problems
    assert not assembly.errors
    return assembly


def texts(place: str) -> dict[str, str]:
    return {key: text for key, text in metrics(agent())[place].items() if key in TEXTS}


def test_a_kafka_source_tells_its_topics_and_its_group() -> None:
    assert texts("SOURCE.old") == {
        "Type": "SOURCE",
        "Component": "KafkaSource",
        "Channels": "c1",
        "Topics": "clicks views",
        "Group": "mover",
    }


def test_a_source_tells_all_of_its_channels() -> None:
    assert texts("SOURCE.log") == {"Type": "SOURCE", "Component": "seq", "Channels": "c1 c2"}


def test_a_sink_tells_where_its_events_go() -> None:
    assert texts("SINK.out")["Topics"] == "copies"
    assert texts("SINK.files")["Place"] == "hdfs://lake/clicks"


def test_no_other_setting_leaves_the_agent() -> None:
    assert "hunter2" not in str(metrics(agent()))


def test_prometheus_gets_numbers_alone() -> None:
    for line in prometheus_text(agent()).splitlines():
        if not line.startswith("#"):
            float(line.rpartition(" ")[2])
