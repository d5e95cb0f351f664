"""Configurations as in Flume's user guide: each is accepted unchanged.
`tests/e2e/test_agent_guide.py` runs them."""

import pytest

from headrace.ingest.config.plan import Severity
from testkit.sample.flume_guide import (
    CHANNELS,
    GROUPS,
    SINKS,
    SOURCE_EXTRAS,
    SOURCES,
    prefixed,
)
from testkit.sample.ingest_agent import assemble_text

MEMORY = "a1.channels = c1\na1.channels.c1.type = memory\n"
LOGGER = "a1.sinks = k1\na1.sinks.k1.type = logger\na1.sinks.k1.channel = c1\n"
SEQ = "a1.sources = r1\na1.sources.r1.type = seq\na1.sources.r1.channels = c1\n"


def errors(text: str) -> list[str]:
    return [str(each) for each in assemble_text(text).problems if each.severity is Severity.ERROR]


@pytest.mark.parametrize("name", [name for name in SOURCES if name != "http"])
def test_sources(name: str) -> None:
    own = prefixed("a1.sources.r1", SOURCES[name])
    big = "a1.channels.c1.transactionCapacity = 100\n"
    text = f"a1.sources = r1\na1.sources.r1.channels = c1\n{own}{MEMORY}{big}{LOGGER}"
    assert errors(text) == []


def test_a_custom_handler_is_named_as_unknown() -> None:
    own = prefixed("a1.sources.r1", SOURCES["http"])
    found = errors(f"a1.sources = r1\na1.sources.r1.channels = c1\n{own}{MEMORY}{LOGGER}")
    assert "there is no handler 'org.example.rest.RestHandler': write json or blob" in found[0]


@pytest.mark.parametrize("name", SINKS)
def test_sinks(name: str) -> None:
    own = prefixed("a1.sinks.k1", SINKS[name])
    assert errors(f"{SEQ}{MEMORY}a1.sinks = k1\na1.sinks.k1.channel = c1\n{own}") == []


@pytest.mark.parametrize("name", CHANNELS)
def test_channels(name: str) -> None:
    own = prefixed("a1.channels.c1", CHANNELS[name])
    assert errors(f"{SEQ}a1.channels = c1\n{own}{LOGGER}") == []


@pytest.mark.parametrize("name", SOURCE_EXTRAS)
def test_interceptors_and_selectors(name: str) -> None:
    own = prefixed("a1.sources.r1", SOURCE_EXTRAS[name])
    assert errors(f"{SEQ}{own}{MEMORY}{LOGGER}") == []


@pytest.mark.parametrize("name", GROUPS)
def test_groups(name: str) -> None:
    sinks = "a1.sinks = k1 k2\na1.sinkgroups = g1\na1.sinkgroups.g1.sinks = k1 k2\n"
    for sink in ("k1", "k2"):
        sinks += f"a1.sinks.{sink}.type = null\na1.sinks.{sink}.channel = c1\n"
    assert errors(f"{SEQ}{MEMORY}{sinks}{prefixed('a1.sinkgroups.g1', GROUPS[name])}") == []
