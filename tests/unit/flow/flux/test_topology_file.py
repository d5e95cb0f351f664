"""Topologies of Flux files."""

import json
from pathlib import Path

import pytest

from headrace.flow.flux.document import FluxError
from headrace.flow.flux.topology_file import read_topology
from headrace.flow.plan.plan import Guarantee
from headrace.testing.flow_run import FlowRun

WORDS = """\
name: words
config:
  guarantee: at-least-once
  dead.letters: null
  spark.sql.shuffle.partitions: 2
components:
  - id: options
    className: builtins:dict
    constructorArgs: {maxOffsetsPerTrigger: "1000"}
spouts:
  - id: lines
    className: headrace.flow.storm.spout:TopicSpout
    constructorArgs: {topics: "${input}", brokers: "b:9092", fields: value STRING}
    properties:
      - {name: options, ref: options}
bolts:
  - {id: split, className: "builtins:str.split", output: word STRING}
  - id: count
    className: headrace.flow.plan.aggregate:Aggregate
    constructorArgs: {by: word, n: count, first: "min(word)"}
    parallelism: 2
sinks:
  - {id: out, className: headrace.flow.storm.sink.TopicSink, constructorArgs: [counts]}
streams:
  - {from: lines, to: split, grouping: {type: SHUFFLE}}
  - {name: by word, from: split, to: count, grouping: {type: fields, args: [word]}}
  - {from: count, to: out, grouping: {type: LOCAL_OR_SHUFFLE}}
"""


def write(folder: Path, text: str, name: str = "words.yaml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_a_file_becomes_a_topology(tmp_path: Path) -> None:
    plan = read_topology(write(tmp_path, WORDS), {"input": "lines"}).plan()

    assert (plan.name, plan.guarantee, plan.dead_letters) == (
        "words",
        Guarantee.AT_LEAST_ONCE,
        None,
    )
    assert plan.settings == {"spark.sql.shuffle.partitions": "2"}
    assert plan.components["lines"].work.topics == ("lines",)
    assert plan.components["lines"].work.options == {"maxOffsetsPerTrigger": "1000"}
    assert plan.components["count"].parallelism == 2
    run = FlowRun(plan)
    run.feed(["a b a", "b"])
    totals = {row["word"]: row["n"] for row in map(json.loads, run.values("counts"))}
    assert totals == {"a": 2, "b": 2}


def test_includes_are_merged_and_overridden(tmp_path: Path) -> None:
    write(tmp_path, WORDS, "base.yaml")
    path = write(tmp_path, "includes:\n  - {file: base.yaml}\nname: other\n")

    plan = read_topology(path, {"input": "lines"}).plan()

    assert plan.name == "other"
    assert list(plan.components) == ["lines", "split", "count", "out"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("bolts:\n", "blots:\n", "words.yaml:17: a topology has no key blots; did you mean bolts?"),
        ("to: split,", "to: splt,", "words.yaml:25: there is no bolt or sink splt"),
        ("from: lines", "from: liens", "words.yaml:25: there is no spout or bolt liens"),
        ("type: SHUFFLE", "type: SHUFLE", "words.yaml:25: a grouping cannot be SHUFLE"),
        ("aggregate:Aggregate", "aggregate:Agregate", "words.yaml:19: .* has no Agregate"),
        ("builtins:str.split", "no_such:split", "words.yaml:17: .* no_such cannot be imported"),
        ("n: count", "n: cuont", "words.yaml:19: the measure n cannot be 'cuont'"),
        ("ref: options", "ref: option", "words.yaml:15: no component option stands before"),
        ("word STRING}", "word STRNG}", "words.yaml:17: the fields 'word STRNG' cannot be read"),
        ("parallelism: 2", "parallelism: two", "words.yaml:21: parallelism must be a number"),
        ("at-least-once", "at-lest-once", "words.yaml:3: a guarantee cannot be 'at-lest-once'"),
        ("name: words\n", "", "the topology has no name"),
        ("args: [word]", "args: []", "words.yaml:26: .fields.* needs the names of the fields"),
        ("[counts]", "[]", "words.yaml:23: TopicSink could not be made: TypeError"),
    ],
)
def test_a_mistake_is_reported_with_its_line(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    assert old in WORDS
    path = write(tmp_path, WORDS.replace(old, new))

    with pytest.raises(FluxError, match=message):
        read_topology(path, {"input": "lines"})


def test_files_that_include_each_other_are_reported(tmp_path: Path) -> None:
    path = write(tmp_path, "includes:\n  - {file: words.yaml}\n")

    with pytest.raises(FluxError, match="include each other"):
        read_topology(path)


def test_an_unknown_key_of_config_is_refused_at_its_line(tmp_path: Path) -> None:
    text = WORDS.replace("  dead.letters: null\n", "  dead.letter: null\n")

    with pytest.raises(
        FluxError, match=r"words\.yaml:4: .* dead\.letter; did you mean dead\.letters"
    ):
        read_topology(write(tmp_path, text), {"input": "lines"})


def test_storms_own_keys_have_no_effect(tmp_path: Path) -> None:
    text = WORDS.replace("config:\n", "config:\n  topology.workers: 4\n")

    assert read_topology(write(tmp_path, text), {"input": "lines"}).name == "words"
