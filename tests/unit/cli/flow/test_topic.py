"""The topics that a plan needs."""

from headrace.cli.flow.topic import topics_of
from headrace.flow.storm.sink import TopicSink
from headrace.flow.storm.spout import TopicSpout
from headrace.flow.storm.topology import Topology


def test_what_is_read_and_written_each_once() -> None:
    made = Topology("words", settings={"metrics.topic": "figures"})
    made.spout("lines", TopicSpout(["a", "b"], brokers="x:1", fields="value STRING"))
    made.sink("one", TopicSink("out")).shuffle("lines")
    made.sink("two", TopicSink("out")).shuffle("lines")

    assert topics_of(made.plan()) == ["a", "b", "out", "words-dead-letters", "figures"]
