"""The first program of every stream processor: how often each word came.

A function splits lines into words. Spark itself adds up, because `Aggregate` only declares the
totals. The topic of counts has the newest count of a word under its key.
"""

from headrace.flow import Aggregate
from headrace.flow.storm import TopicSink, TopicSpout, Topology


def split(line: str) -> list[str]:
    return line.lower().split()


def topology(brokers: str, lines: str = "lines", counts: str = "word-counts") -> Topology:
    made = Topology("word-count")
    made.spout("lines", TopicSpout(lines, brokers=brokers, fields="value STRING"))
    made.bolt("split", split, output="word STRING").shuffle("lines")
    made.bolt("count", Aggregate("word", n="count")).fields("split", "word")
    made.sink("counts", TopicSink(counts, key="word")).shuffle("count")
    return made
