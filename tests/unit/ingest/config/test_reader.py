"""Configurations, and the problems that are reported about wrong ones."""

import pytest

from headrace.config.properties import parse_properties
from headrace.ingest.agent.drawing import draw
from headrace.ingest.config.reader import agent_names, plan_agent
from headrace.model.error import ConfigError
from testkit.sample.ingest_agent import assemble_text

GOOD = """\
a1.sources = r1
a1.channels = c1 c2
a1.sinks = k1 k2
a1.sources.r1.type = seq
a1.sources.r1.channels = c1 c2
a1.sources.r1.interceptors = i1
a1.sources.r1.interceptors.i1.type = static
a1.sources.r1.interceptors.i1.key = dc
a1.sources.r1.selector.type = multiplexing
a1.sources.r1.selector.header = dc
a1.sources.r1.selector.mapping.ny = c1
a1.sources.r1.selector.default = c2
a1.channels.c1.type = memory
a1.channels.c2.type = memory
a1.sinks.k1.type = null
a1.sinks.k1.channel = c1
a1.sinks.k2.type = logger
a1.sinks.k2.channel = c2
"""


def problems_of(text: str) -> list[str]:
    return [str(problem) for problem in assemble_text(text).problems]


def changed(old: str, new: str) -> list[str]:
    assert old in GOOD
    return problems_of(GOOD.replace(old, new))


def test_a_sound_configuration_has_no_problem() -> None:
    assembly = assemble_text(GOOD)
    assert assembly.problems == []
    assert (list(assembly.sources), list(assembly.sinks)) == (["r1"], ["k1", "k2"])


def test_the_agents_of_a_file_are_listed() -> None:
    assert agent_names(parse_properties("b.sources = x\na.sinks = y\nb.z = 1", {})) == ["b", "a"]


def test_an_agent_that_is_not_there_is_named_with_those_that_are() -> None:
    with pytest.raises(ConfigError, match=r"no agent called a9 .*: it describes a1"):
        plan_agent(parse_properties(GOOD, {}), "a9")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("type = seq", "type = sequence", "error: line 4: source r1: there is no source of type"),
        ("type = seq", "type = jms", "error: line 4: source r1: there is no source of type 'jms'"),
        (
            "channels = c1 c2\na1.sources.r1.i",
            "channels = c9\na1.sources.r1.i",
            "line 5: source r1 names channel c9",
        ),
        (
            "a1.sinks.k1.channel = c1",
            "a1.sinks.k1.channels = c1",
            "line 15: sink k1 has no channel: write which it uses (a sink has",
        ),
        ("a1.sinks.k1.type = null", "a1.sinks.k1.typo = null", "sink k1 has no type"),
        (
            "c1.type = memory",
            "c1.type = memory\na1.channels.c1.capacity = many",
            "line 14: channel c1: capacity cannot be 'many': write a whole",
        ),
        (
            "c1.type = memory",
            "c1.type = memory\na1.channels.c1.capacty = 5",
            "warning: line 14: channel c1: capacty has no effect; did you mean capacity?",
        ),
        (
            "a1.channels = c1 c2",
            "a1.channels = c1",
            "channel c2 is described and does not run: add it to a1.channels",
        ),
        ("a1.sources = r1", "a1.source = r1", "a1.source has no effect: did you mean sources?"),
        (
            "mapping.ny = c1",
            "mapping.ny = c7",
            "line 11: selector r1: the selector names channel c7",
        ),
        ("i1.type = static", "i1.type = statik", "of type 'statik'; did you mean static?"),
        (
            "r1.channels",
            "r1.batchSize = 500\na1.sources.r1.channels",
            "line 5: source r1: its batchSize 500 is more than the transactionCapacity 100",
        ),
        (
            "a1.sinks.k2.channel = c2",
            "a1.sinks.k2.channel = c1",
            "warning: line 14: no sink reads from channel c2",
        ),
        ("type = seq", "type = nowhere:Class", "cannot import nowhere"),
        (
            "type = seq",
            "type = json:JSONDecoder",
            "json:JSONDecoder is no source: it must be a class derived from headrace",
        ),
    ],
)
def test_a_mistake_is_explained_with_its_line(old: str, new: str, message: str) -> None:
    assert any(message in problem for problem in changed(old, new)), changed(old, new)


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        (
            "a1.sources = r1\na1.sources.r1.type = netkat\n",
            ["line 2: source r1 has no channels", "'netkat'; did you mean netcat?"],
        ),
        (
            "a1.sources = r1\na1.sources.r1.type = netcat\na1.sources.r1.interceptors = i\n"
            "a1.sources.r1.interceptors.i.type = hots\n",
            ["source r1 has no channels", "line 4: interceptor i", "line 2: source r1: bind is"],
        ),
        (
            "a1.sinks = k1\na1.sinks.k1.type = loger\na1.sinks.k1.channel = c9\n",
            ["line 3: sink k1 names channel c9", "line 2: sink k1: there is no sink of type"],
        ),
    ],
)
def test_other_mistakes_of_a_component_without_a_channel_are_reported_too(
    text: str, messages: list[str]
) -> None:
    problems = problems_of(f"{text}a1.channels = c1\na1.channels.c1.type = memory\n")
    for message in messages:
        assert any(message in problem for problem in problems), problems


def test_all_mistakes_of_a_component_are_reported_at_once() -> None:
    problems = problems_of(
        "a1.sources = r1\na1.channels = c1\na1.channels.c1.type = memory\n"
        "a1.sources.r1.type = netcat\na1.sources.r1.channels = c1\na1.sources.r1.prt = 5140\n"
        "a1.sources.r1.max-line-length = long\na1.sources.r1.ack-every-event = perhaps\n"
    )
    for message in (
        "error: line 4: source r1: bind is missing",
        "error: line 4: source r1: port is missing",
        "warning: line 6: source r1: prt has no effect; did you mean port?",
        "error: line 7: source r1: max-line-length cannot be 'long'",
        "error: line 8: source r1: ack-every-event cannot be 'perhaps'",
    ):
        assert any(message in problem for problem in problems), problems


def test_a_component_that_cannot_be_used_leaves_the_others_running() -> None:
    assembly = assemble_text(GOOD.replace("a1.sinks.k1.type = null", "a1.sinks.k1.type = nil"))
    assert list(assembly.sinks) == ["k2"]
    assert list(assembly.sources) == ["r1"]


def test_flume_s_class_names_and_any_case_mean_the_same() -> None:
    text = GOOD.replace("= seq", "= org.apache.flume.source.SequenceGeneratorSource")
    text = text.replace("= memory", "= MEMORY")
    assert assemble_text(text).problems == []


def test_an_agent_without_channels_says_so() -> None:
    assert "error: agent a1 has no channel: write a1.channels = c1" in problems_of(
        "a1.sources = r1\n"
    )


def test_a_sink_of_two_groups_and_a_group_of_none_are_errors() -> None:
    text = GOOD + (
        "a1.sinkgroups = g1 g2\na1.sinkgroups.g1.sinks = k1 k2\n"
        "a1.sinkgroups.g1.processor.type = failover\n"
        "a1.sinkgroups.g2.sinks = k1\n"
    )
    problems = problems_of(text)
    assert any("sink k1 is in group g1 already, not in g2" in each for each in problems)
    assert any("sink group g2 has no sinks" in each for each in problems)


def test_the_flow_is_drawn() -> None:
    plan, _ = plan_agent(parse_properties(GOOD, {}), "a1")
    assert draw(plan).splitlines() == [
        "agent a1",
        "  r1 (seq)  --[i1 dc=ny]-->  c1 (memory)  -->  k1 (null)",
        "  r1 (seq)  --[i1 dc=*]-->   c2 (memory)  -->  k2 (logger)",
    ]


EXACT = """\
a1.sources = r1
a1.channels = c1
a1.sinks = k1
a1.sources.r1.type = spooldir
a1.sources.r1.spoolDir = /spool
a1.sources.r1.exactlyOnce = true
a1.sources.r1.channels = c1
a1.channels.c1.type = memory
a1.sinks.k1.type = kafka
a1.sinks.k1.kafka.bootstrap.servers = localhost:9092
a1.sinks.k1.kafka.transactional.id = spool-1
a1.sinks.k1.channel = c1
"""


def test_exactly_once_with_a_transactional_sink_is_fine() -> None:
    assert problems_of(EXACT) == []


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("a1.sinks.k1.kafka.transactional.id = spool-1\n", "", "sink k1 writes no transactions"),
        ("c1.type = memory", "c1.type = file", "channel c1 stores no position with its events"),
        ("= r1\n", "= r1\na1.sources.r1.selector.type = multiplexing\n"
         "a1.sources.r1.selector.default = c1\n", "it has a selector; leave that out"),
    ],
)  # fmt: skip
def test_exactly_once_without_a_ledger_is_explained(old: str, new: str, message: str) -> None:
    assert old in EXACT
    problems = problems_of(EXACT.replace(old, new, 1))
    assert any("cannot deliver exactly once" in each and message in each for each in problems)
