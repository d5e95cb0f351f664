"""Debezium for PostgreSQL as a connector of a Connect worker."""

from typing import Any
from urllib.parse import urlsplit

from headrace.testing.readiness import wait_until
from testkit.peer.connect_worker import ConnectWorker
from testkit.process.child_process import ServerFailed

_SECONDS = 120.0
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
        self._worker.call("POST", "/connectors", {"name": self._name, "config": self._settings})
        # The worker accepts a connector before it has a status.
        wait_until(self._has_status, what="Debezium's status", timeout_seconds=_SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        self._worker.call("DELETE", f"/connectors/{self._name}")

    def _has_status(self) -> bool:
        try:
            self._worker.call("GET", f"/connectors/{self._name}/status")
        except OSError:
            return False
        return True

    def stop(self) -> None:
        """Stop its task; it goes on from its position at `resume`."""
        self._worker.call("PUT", f"/connectors/{self._name}/stop")

    def resume(self) -> None:
        self._worker.call("PUT", f"/connectors/{self._name}/resume")

    def check(self) -> None:
        """Raise what the connector failed with.

        Raises:
            ServerFailed: with the trace of its task.
        """
        status: dict[str, Any] = self._worker.call("GET", f"/connectors/{self._name}/status")
        for each in (status["connector"], *status["tasks"]):
            if each["state"] == "FAILED":
                raise ServerFailed(f"Debezium failed: {each.get('trace')}")
