"""A plan as boxes and arrows."""

import json
import xml.etree.ElementTree as ElementTree

from headrace.flow.plan.aggregate import Aggregate
from headrace.flow.plan.graph import Graph
from headrace.flow.plan.graph_svg import to_svg
from headrace.flow.storm.sink import TopicSink
from headrace.flow.storm.spout import TopicSpout
from headrace.flow.storm.topology import Topology


def words(name: str = "words") -> Topology:
    made = Topology(name)
    made.spout("lines", TopicSpout("lines", brokers="b:9092", fields="value STRING"))
    made.bolt("split", str.split, output="word STRING").shuffle("lines")
    made.bolt("count", Aggregate("word", n="count"), parallelism=2).fields("split", "word")
    made.sink("out", TopicSink("counts", key="word")).shuffle("count").shuffle("split")
    return made


def test_nodes_have_kinds_and_arrows_have_groupings() -> None:
    graph = Graph.of(words().plan())

    assert [(each.name, each.kind, each.what, each.stage) for each in graph.nodes] == [
        ("lines", "spout", "lines", 0),
        ("split", "bolt", "str.split", 0),
        ("count", "bolt", "Aggregate", 1),
        ("out", "sink", "counts", 1),
    ]
    assert graph.node("count").streams == {"default": "word STRING, n BIGINT"}
    assert [(each.source, each.target, each.label) for each in graph.arrows] == [
        ("lines", "split", "shuffle"),
        ("split", "count", "fields word"),
        ("count", "out", "shuffle"),
        ("split", "out", "shuffle"),
    ]


def test_depth_is_the_length_of_the_longest_path() -> None:
    assert Graph.of(words().plan()).depths() == {"lines": 0, "split": 1, "count": 2, "out": 3}


def test_a_graph_survives_json() -> None:
    graph = Graph.of(words().plan())

    assert Graph.from_json(json.loads(json.dumps(graph.to_json()))) == graph


def test_the_picture_has_a_box_for_each_node_and_no_markup_of_a_users() -> None:
    svg = to_svg(Graph.of(words('<script>alert("1")</script>').plan()))

    root = ElementTree.fromstring(svg)
    space = "{http://www.w3.org/2000/svg}"
    assert len(root.findall(f"{space}g/{space}rect")) == 4
    assert root.find(f".//{space}script") is None
    assert '<script>alert("1")' in "".join(root.itertext())
