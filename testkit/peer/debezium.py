"""Debezium for PostgreSQL as a connector of a Connect worker."""

from typing import Any
from urllib.parse import urlsplit

from testkit.peer.connect_worker import ConnectWorker
from testkit.process.child_process import ServerFailed

_CONVERTER = "org.apache.kafka.connect.json.JsonConverter"


class DebeziumConnector:
    """Captures the tables of a schema inside the block.

    Its name is that of its slot, of its publication and the prefix of its topics.

    Args:
        url: the database: `postgresql://user@host:port/database`.
        settings: more keys of the connector.
    """

    def __init__(
        self, worker: ConnectWorker, name: str, url: str, schema: str, **settings: str
    ) -> None:
        self._worker = worker
        self._name = name
        database = urlsplit(url)
        converters = {
            f"{part}.converter{key}": value
            for part in ("key", "value", "header")
            for key, value in (
                ("", _CONVERTER),
                # A NULL is no default: Connect writes it so unless it is asked not to.
                (".replace.null.with.default", "false"),
            )
        }
        self._settings = {
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "tasks.max": "1",
            "database.hostname": str(database.hostname),
            "database.port": str(database.port),
            "database.user": str(database.username),
            "database.password": "none",
            "database.dbname": database.path.removeprefix("/"),
            "plugin.name": "pgoutput",
            "slot.name": name,
            "publication.name": name,
            "publication.autocreate.mode": "filtered",
            "schema.include.list": schema,
            "topic.prefix": name,
            "exactly.once.support": "required",
            **converters,
            **{key.replace("_", "."): value for key, value in settings.items()},
        }

    def __enter__(self) -> "DebeziumConnector":
        body = {"name": self._name, "config": self._settings}
        self._worker.call("POST", "/connectors", body)
        return self

    def __exit__(self, *_: object) -> None:
        self._worker.call("DELETE", f"/connectors/{self._name}")

    def check(self) -> None:
        """Raise what the connector failed with.

        Raises:
            ServerFailed: with the trace of its task.
        """
        status: dict[str, Any] = self._worker.call("GET", f"/connectors/{self._name}/status")
        for each in (status["connector"], *status["tasks"]):
            if each["state"] == "FAILED":
                raise ServerFailed(f"Debezium failed: {each.get('trace')}")
