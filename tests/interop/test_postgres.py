"""The jdbc sink into a real PostgreSQL."""

import psycopg
import pytest

from headrace.testing.readiness import wait_until
from testkit.peer.postgres import PostgresServer
from testkit.sample.ingest_agent import running

pytestmark = pytest.mark.interop


def test_an_agent_fills_a_table(postgres: PostgresServer) -> None:
    with psycopg.connect(postgres.url) as connection:
        connection.execute("CREATE TABLE events (host text, body text, headers jsonb)")
    text = f"""
    a1.sources = r1
    a1.channels = c1
    a1.sinks = k1
    a1.sources.r1.type = seq
    a1.sources.r1.totalEvents = 500
    a1.sources.r1.batchSize = 50
    a1.sources.r1.interceptors = i1
    a1.sources.r1.interceptors.i1.type = static
    a1.sources.r1.interceptors.i1.key = host
    a1.sources.r1.interceptors.i1.value = web1
    a1.sources.r1.channels = c1
    a1.channels.c1.type = memory
    a1.sinks.k1.type = jdbc
    a1.sinks.k1.url = jdbc:{postgres.url}
    a1.sinks.k1.table = public.events
    a1.sinks.k1.column.host = header:host
    a1.sinks.k1.column.body = body
    a1.sinks.k1.column.headers = headers
    a1.sinks.k1.channel = c1
    """
    with running(text) as agent:
        sink = agent.assembly.sinks["k1"]
        wait_until(lambda: sink.counters["EventDrainSuccessCount"] == 500, what="all events")
    with psycopg.connect(postgres.url) as connection:
        rows = connection.execute("SELECT host, body, headers FROM events").fetchall()
    assert sorted(int(body) for _, body, _ in rows) == list(range(500))
    assert rows[0][0] == "web1"
    assert rows[0][2] == {"host": "web1"}
