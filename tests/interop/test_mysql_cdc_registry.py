"""Change capture of MariaDB with a schema registry, read by Confluent's own deserializers."""

from decimal import Decimal
from pathlib import Path

import pytest

from headrace.testing.readiness import wait_until
from testkit.process.agent_process import AgentProcess
from testkit.sample.login_registry import LoginRegistry, raw_records
from testkit.sample.mysql_capture import MysqlCapture

pytestmark = pytest.mark.interop

SECONDS = 90.0


@pytest.mark.parametrize("kind", ["avro", "json"])
def test_keys_and_values_are_read_over_kill_9_and_a_registry_that_is_away(
    mysql_capture: MysqlCapture, tmp_path: Path, kind: str
) -> None:
    capture = mysql_capture
    topic = f"my.{capture.name}.people"
    registry = LoginRegistry.make(tmp_path, capture.broker, topic, f"my.{capture.name}.*")
    lines = registry.sink_lines(kind)
    text = "\n".join([capture.configuration(schemas_enable="true"), *lines])
    agent = AgentProcess(tmp_path / "agent", text)

    def wait_for(size: int) -> None:
        wait_until(
            lambda: len(raw_records(capture.broker, topic)) >= size,
            what=f"{size} records",
            timeout_seconds=SECONDS,
        )

    columns = "id bigint PRIMARY KEY, name varchar(20), price decimal(8, 2), at datetime(6)"
    capture.run(f"CREATE TABLE people ({columns}, mood enum('so', 'fine'), raw varbinary(4))")
    capture.run("INSERT INTO people VALUES (1, 'Äda', -1.28, '1970-01-01 00:00:01', 'fine', x'00')")
    with registry.running(), agent:
        wait_for(1)
        capture.run("ALTER TABLE people ADD born date")
        capture.run("INSERT INTO people (id, born) VALUES (2, '1970-01-03')")
        wait_for(2)
    # The agent was killed. Its next one knows no schema, and finds no registry.
    with agent:
        capture.run("UPDATE people SET name = 'Ada' WHERE id = 1")
        capture.run("DELETE FROM people WHERE id = 2")
        wait_until(
            lambda: "no schema registry answers" in agent.log,
            what="the missing registry",
            timeout_seconds=SECONDS,
        )
        assert len(raw_records(capture.broker, topic)) == 2
        with registry.running():
            wait_for(5)
            records = registry.read(kind, topic, raw_records(capture.broker, topic))
            with registry.client() as client:
                versions = [client.get_versions(f"{topic}-{part}") for part in ("key", "value")]

    assert versions == [[1], [1, 2]]
    assert [key for key, _ in records] == [{"id": number} for number in (1, 2, 1, 2, 2)]
    values = [value for _, value in records]
    assert [value and value["op"] for value in values] == ["r", "c", "u", "d", None]
    row = {
        "id": 1,
        "name": "Äda",
        "price": Decimal("-1.28") if kind == "avro" else "gA==",
        "at": 1_000_000,
        "mood": "fine",
        "raw": b"\0" if kind == "avro" else "AA==",
    }
    assert values[0]["after"] == row
    assert values[2]["before"] == {**row, "born": None}
    assert values[2]["after"] == {**row, "born": None, "name": "Ada"}
    assert (values[3]["before"]["born"], values[3]["after"]) == (2, None)
    assert values[3]["source"]["connector"] == "mariadb"
