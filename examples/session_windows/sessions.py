"""Visits to a website: a user's clicks that follow each other without half an hour's pause."""

from headrace.flow.storm import TopicSpout
from headrace.flow.trident import TridentTopology


def topology(brokers: str, clicks: str = "clicks", visits: str = "visits") -> TridentTopology:
    made = TridentTopology("session-windows")
    spout = TopicSpout(
        clicks, brokers=brokers, fields="user STRING, page STRING, at BIGINT", format="json"
    )
    sessions = (
        made.new_stream("clicks", spout)
        .filter(lambda user, at: user is not None and at is not None, "user, at")
        .group_by("user")
        .session_window(30 * 60, "at", lag_seconds=60, clicks="count", pages="distinct(page)")
    )
    sessions.parallelism_hint(2).to_topic(visits, key="user")
    return made
