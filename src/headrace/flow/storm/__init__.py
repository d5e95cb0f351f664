"""Topologies for Storm users: spouts, bolts and groupings.

A name is loaded on first use.

    Topology        Declares spouts, bolts, sinks and the streams between them.
    Bolt            Base class of bolts: `execute` is called with a batch of tuples.
    StatefulBolt    A bolt with a checkpointed key-value state.
    WindowedBolt    A bolt that is called with windows.
    TopicSpout      Reads records of topics.
    PythonSpout     Base class of spouts in Python: `next_tuple`, `ack`, `fail`.
    SparkSpout      Reads any DataFrame.
    Spout           Base class of spouts.
    TopicSink       Writes tuples to a topic.

Totals (`Aggregate`), expressions (`Select`) and windows (`CountWindow`, `TimeWindow`) are in
`headrace.flow`.

Example:
    from headrace.flow.storm import TopicSink, TopicSpout, Topology

    topology = Topology("shout")
    topology.spout("lines", TopicSpout("lines", brokers=brokers, fields="value STRING"))
    topology.bolt("shout", str.upper, output="value STRING").shuffle("lines")
    topology.sink("loud", TopicSink("loud", value="value")).shuffle("shout")
"""

from typing import TYPE_CHECKING

from headrace.model.lazy_import import lazy_names

__all__ = [
    "Bolt",
    "PythonSpout",
    "SparkSpout",
    "Spout",
    "StatefulBolt",
    "TopicSink",
    "TopicSpout",
    "Topology",
    "WindowedBolt",
]

if TYPE_CHECKING:
    from headrace.flow.storm.bolt import Bolt, StatefulBolt
    from headrace.flow.storm.python_spout import PythonSpout
    from headrace.flow.storm.sink import TopicSink
    from headrace.flow.storm.spout import SparkSpout, Spout, TopicSpout
    from headrace.flow.storm.topology import Topology
    from headrace.flow.storm.windowed_bolt import WindowedBolt
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "Bolt": "headrace.flow.storm.bolt",
            "PythonSpout": "headrace.flow.storm.python_spout",
            "SparkSpout": "headrace.flow.storm.spout",
            "Spout": "headrace.flow.storm.spout",
            "StatefulBolt": "headrace.flow.storm.bolt",
            "TopicSink": "headrace.flow.storm.sink",
            "TopicSpout": "headrace.flow.storm.spout",
            "Topology": "headrace.flow.storm.topology",
            "WindowedBolt": "headrace.flow.storm.windowed_bolt",
        },
    )
