"""Page views joined with the profiles of their users.

A task receives both topics, divided by user. It keeps profiles in its state. Views of a user
without a profile wait for it there; only the newest are kept, so that the state stays bounded.
"""

import pyarrow as pa

from headrace.flow import Emit
from headrace.flow.storm import StatefulBolt, TopicSink, TopicSpout, Topology

WAITING = 100


class Join(StatefulBolt):
    """Emits a view with the town of its user."""

    def execute(self, batch: pa.RecordBatch, emit: Emit) -> None:
        rows = batch.to_pylist()
        joined = self._profiles(rows) if "town" in batch.schema.names else self._views(rows)
        if joined:
            emit([list(each) for each in zip(*joined, strict=True)])

    def _profiles(self, rows: list[dict[str, str]]) -> list[tuple[str, str, str]]:
        joined = []
        for row in rows:
            user = row["user"]
            known = self.state.get(user, {"town": None, "waiting": []})
            joined += [(user, row["town"], page) for page in known["waiting"]]
            self.state.put(user, {"town": row["town"], "waiting": []})
        return joined

    def _views(self, rows: list[dict[str, str]]) -> list[tuple[str, str, str]]:
        joined = []
        for row in rows:
            user, page = row["user"], row["page"]
            known = self.state.get(user, {"town": None, "waiting": []})
            if known["town"] is None:
                known = {"town": None, "waiting": [*known["waiting"], page][-WAITING:]}
                self.state.put(user, known)
            else:
                joined.append((user, known["town"], page))
        return joined


def topology(
    brokers: str, views: str = "views", profiles: str = "profiles", joined: str = "joined"
) -> Topology:
    made = Topology("profiles-join")
    made.spout(
        "profiles",
        TopicSpout(profiles, brokers=brokers, fields="user STRING, town STRING", format="json"),
    )
    made.spout(
        "views",
        TopicSpout(views, brokers=brokers, fields="user STRING, page STRING", format="json"),
    )
    join = made.bolt("join", Join(), output="user STRING, town STRING, page STRING", parallelism=2)
    # Profiles first: within a batch, inputs are processed in the order of declaration.
    join.fields("profiles", "user").fields("views", "user")
    made.sink("joined", TopicSink(joined, key="user")).shuffle("join")
    return made
