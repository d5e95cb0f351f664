"""Tables of topics in the console, filled by a real process."""

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headrace.client import Admin, ClientSettings, ConnectionPool, NewTopic, Writer
from headrace.landing.configured.landing_process import LandingProcess
from headrace.landing.configured.table_folder import TableFolder
from headrace.landing.configured.turn import TurnSettings
from headrace.testing.readiness import wait_until
from testkit.process.broker_process import BrokerProcess
from testkit.process.console_client import ConsoleClient

pytest.importorskip("deltalake")


@pytest.fixture
def landed_topic(broker: BrokerProcess) -> Iterator[str]:
    """A topic that names a table, and is gone after the test: a process would land it again."""
    name = f"landed-{uuid.uuid4().hex[:8]}"
    with ConnectionPool(ClientSettings.of({"bootstrap.servers": broker.address})) as pool:
        table = {"headrace.table.name": f"delta:{name}"}
        assert Admin(pool).create_topics([NewTopic(name, 2, 1, table)]) == {name: None}
        yield name
        Admin(pool).delete_topics([name])


def shown(client: ConsoleClient, topic: str) -> dict[str, Any]:
    tables = client.get("tables").json()["tables"]
    return next((each for each in tables if each["topic"] == topic), {})


def wait_for(client: ConsoleClient, topic: str, **fields: Any) -> None:
    wait_until(
        lambda: fields.items() <= shown(client, topic).items(),
        what=f"{fields} in the console",
        timeout_seconds=120,
    )


def test_a_table_shows_its_rows_and_how_far_it_is_behind(
    broker: BrokerProcess, client: ConsoleClient, landed_topic: str, tmp_path: Path
) -> None:
    settings = ClientSettings.of({"bootstrap.servers": broker.address})

    def put(count: int) -> None:
        with Writer(settings, landed_topic) as writer:
            writer.write(pa.table({"value": pa.array([b"x"] * count, pa.binary())}))
            writer.flush()

    put(3)
    wait_for(client, landed_topic, state="silent", rows=None, lag=None)
    turns = TurnSettings(client=settings, folder=TableFolder(tmp_path))
    LandingProcess(turns, follow=False).run(lambda: False)
    wait_for(client, landed_topic, state="landing", rows=3, lag=0, problem=None)
    put(2)
    wait_for(client, landed_topic, rows=3, lag=2)

    found = client.get(f"topics/{landed_topic}").json()["table"]
    assert (found["table"], found["rows"]) == (f"delta:{landed_topic}", 3)


def test_a_topic_that_names_no_table_has_none(client: ConsoleClient, broker: BrokerProcess) -> None:
    name = f"plain-{uuid.uuid4().hex[:8]}"
    client.post("topics", {"name": name})

    assert shown(client, name) == {}
    assert client.get(f"topics/{name}").json()["table"] is None
