"""The first program of every stream processor: how often each word came.

A function takes lines apart; Spark itself adds up, because `Aggregate` says what is wanted and not
how. The topic of counts has the newest count of a word under its key.
"""

from headrace.flow.plan.aggregate import Aggregate
from headrace.flow.storm.sink import TopicSink
from headrace.flow.storm.spout import TopicSpout
from headrace.flow.storm.topology import Topology


def split(line: str) -> list[str]:
    return line.lower().split()


def topology(brokers: str, lines: str = "lines", counts: str = "word-counts") -> Topology:
    made = Topology("word-count")
    made.spout("lines", TopicSpout(lines, brokers=brokers, fields="value STRING"))
    made.bolt("split", split, output="word STRING").shuffle("lines")
    made.bolt("count", Aggregate("word", n="count")).fields("split", "word")
    made.sink("counts", TopicSink(counts, key="word")).shuffle("count")
    return made
