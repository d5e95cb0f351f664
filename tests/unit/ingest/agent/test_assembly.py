"""What the agent tells the parts that it connects."""

from pathlib import Path

import pytest

from headrace.config.properties import parse_properties
from headrace.ingest.agent.assembly import assemble
from headrace.ingest.config.reader import plan_agent

FLOW = """\
a.sources = r1 r2
a.channels = c1 c2
a.sinks = k1 k2
a.sources.r1.type = TAILDIR
a.sources.r1.filegroups = f
a.sources.r1.filegroups.f = {folder}/.*log
a.sources.r1.positionFile = {folder}/positions
a.sources.r1.channels = c1
a.sources.r1.exactlyOnce = {exactly_once}
a.sources.r2.type = seq
a.sources.r2.channels = c2
a.channels.c1.type = {channel}
a.channels.c1.kafka.bootstrap.servers = b:1
a.channels.c1.kafka.transactional.id = c1
a.channels.c2.type = memory
a.sinks.k1.type = kafka
a.sinks.k1.kafka.bootstrap.servers = b:1
a.sinks.k1.kafka.transactional.id = k1
a.sinks.k1.channel = c1
a.sinks.k2.type = kafka
a.sinks.k2.kafka.bootstrap.servers = b:1
a.sinks.k2.channel = c2
"""


@pytest.mark.parametrize("exactly_once", [True, False])
@pytest.mark.parametrize("channel", ["memory", "org.apache.flume.channel.kafka.KafkaChannel"])
def test_only_sinks_of_an_exactly_once_source_trust_headers(
    tmp_path: Path, channel: str, exactly_once: bool
) -> None:
    text = FLOW.format(folder=tmp_path, channel=channel, exactly_once=str(exactly_once).lower())
    plan, _ = plan_agent(parse_properties(text, {}), "a")

    assembly = assemble(plan)

    assert not assembly.errors
    assert assembly.sinks["k1"].trusts_headers is exactly_once
    assert not assembly.sinks["k2"].trusts_headers
