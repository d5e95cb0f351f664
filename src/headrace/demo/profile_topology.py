"""The demo's topology that joins views with profiles: views per country."""

from collections import Counter
from typing import Any

import pyarrow as pa

from headrace.demo.demo_audit import SETTINGS
from headrace.demo.topic import COUNTRIES, PROFILES, VIEWS
from headrace.flow.plan.aggregate import Aggregate
from headrace.flow.plan.plan import Plan
from headrace.flow.runtime.work import Emit
from headrace.flow.storm.bolt import StatefulBolt
from headrace.flow.storm.sink import TopicSink
from headrace.flow.storm.spout import TopicSpout
from headrace.flow.storm.topology import Topology

NAME = "countries"

# A waiting user's views are a number, a known user's country is text.
_Known = str | int | None


class JoinProfile(StatefulBolt):
    """Emits the country of the user of every view. Views of a user without a profile are counted
    until the profile comes, so that the result does not depend on which topic is read first."""

    def execute(self, batch: pa.RecordBatch, emit: Emit) -> None:
        columns = batch.to_pydict()
        seen = self._learn(columns) if "country" in columns else self._count(columns["user"])
        countries = [country for country, views in seen.items() for _ in range(views)]
        if countries:
            emit([countries])

    def _count(self, users: list[str]) -> Counter[str]:
        seen: Counter[str] = Counter()
        for user, views in Counter(users).items():
            known: _Known = self.state.get(user)
            if isinstance(known, str):
                seen[known] += views
            else:
                self.state.put(user, (known or 0) + views)
        return seen

    def _learn(self, columns: dict[str, list[Any]]) -> Counter[str]:
        seen: Counter[str] = Counter()
        for user, country in zip(columns["user"], columns["country"], strict=True):
            waiting: _Known = self.state.get(user)
            if isinstance(waiting, int):
                seen[country] += waiting
            self.state.put(user, country)
        return seen


def profile_plan(brokers: str) -> Plan:
    topology = Topology(NAME, settings=SETTINGS)
    views = TopicSpout(VIEWS, brokers=brokers, fields="user STRING, page STRING", format="json")
    profiles = TopicSpout(
        PROFILES, brokers=brokers, fields="user STRING, country STRING", format="json"
    )
    topology.spout("views", views)
    topology.spout("profiles", profiles)
    join = topology.bolt("join", JoinProfile(), output="country STRING")
    join.fields("views", "user").fields("profiles", "user")
    topology.bolt("count", Aggregate("country", views="count")).fields("join", "country")
    topology.sink("to-countries", TopicSink(COUNTRIES, key="country")).shuffle("count")
    return topology.plan()
