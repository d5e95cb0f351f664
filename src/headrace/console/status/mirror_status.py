"""How far the flows of mirrors are: lag and age of each, and of its topics."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

from headrace.mirror.config.flow_settings import FlowSettings
from headrace.mirror.link.link_status import TROUBLE
from headrace.mirror.process.status import PartitionStatus

MOST_TOPICS: Final = 100
"""How many topics of a flow are listed; those furthest behind come first."""

_WELL: Final = "ok"
_UNKNOWN: Final = "unknown"


@dataclass(frozen=True, slots=True)
class MirrorCluster:
    """A cluster as a mirror's file has it."""

    alias: str
    addresses: tuple[str, ...]

    @property
    def id(self) -> str:
        """Two files may call different clusters by the same alias."""
        return f"{self.alias} {','.join(self.addresses)}"


@dataclass(frozen=True, slots=True)
class MirrorFlowStatus:
    """One flow at one moment.

    Attributes:
        partitions: empty where the status could not be read.
        problem: why it could not be.
    """

    source: MirrorCluster
    target: MirrorCluster
    copied_by_brokers: bool
    partitions: tuple[PartitionStatus, ...] = ()
    problem: str | None = None

    @classmethod
    def of(
        cls,
        flow: FlowSettings,
        clusters: dict[str, MirrorCluster],
        partitions: Iterable[PartitionStatus] = (),
        problem: str | None = None,
    ) -> "MirrorFlowStatus":
        return cls(
            clusters[flow.source],
            clusters[flow.target],
            flow.copied_by_brokers,
            tuple(partitions),
            problem,
        )

    @property
    def name(self) -> str:
        return f"{self.source.alias}->{self.target.alias}"

    @property
    def id(self) -> str:
        return f"{self.source.id} > {self.target.id}"

    @property
    def copied(self) -> int:
        """How many offsets are copied, over all partitions: it grows as records are."""
        return sum(each.position or 0 for each in self.partitions)

    def together_with(self, other: "MirrorFlowStatus") -> "MirrorFlowStatus":
        """Return the status of two flows between the same clusters."""
        return replace(
            self,
            partitions=self.partitions + other.partitions,
            problem=self.problem or other.problem,
        )

    def figures(self, rate: float) -> dict[str, Any]:
        """Return what an arrow shows.

        Args:
            rate: the offsets that are copied per second.
        """
        return {"problem": self.problem, "rate": round(rate, 1), **_sums(self.partitions)}

    def as_json(self, rate: float) -> dict[str, Any]:
        """Return the fields that the page shows, the topics furthest behind among them."""
        topics = _topics(self.partitions)
        return {
            "name": self.name,
            "source": self.source.alias,
            "target": self.target.alias,
            "kind": "brokers" if self.copied_by_brokers else "process",
            **self.figures(rate),
            "topics": topics[:MOST_TOPICS],
            "more": max(0, len(topics) - MOST_TOPICS),
        }


def _topics(partitions: Iterable[PartitionStatus]) -> list[dict[str, Any]]:
    """Return the topics, those in trouble first, then those furthest behind."""
    by_topic: defaultdict[str, list[PartitionStatus]] = defaultdict(list)
    for each in partitions:
        by_topic[each.partition.topic].append(each)
    rows = [
        {"topic": name, "remote_topic": of_topic[0].remote_topic, **_sums(of_topic)}
        for name, of_topic in by_topic.items()
    ]
    rows.sort(key=lambda row: (not row["trouble"], -(row["lag"] or 0), row["topic"]))
    return rows


def _sums(partitions: Iterable[PartitionStatus]) -> dict[str, Any]:
    """Return the lag of partitions together, the greatest age, and the states that are not ok.

    A lag that is not known for any of them is None, and so is an age where all is copied.
    """
    listed = list(partitions)
    lags = [each.lag for each in listed if each.lag is not None]
    ages = [each.age_ms for each in listed if each.age_ms is not None]
    states = sorted({_short(each.state) for each in listed} - {_WELL})
    return {
        "partitions": len(listed),
        "lag": sum(lags) if lags else None,
        "age_ms": max(ages, default=None),
        "states": states,
        "trouble": bool(TROUBLE.intersection(states)),
    }


def _short(state: str) -> str:
    return state if not state.startswith(_UNKNOWN) else _UNKNOWN
