"""A `GroupRegistry` with a log in memory, called directly instead of by clients.

It does for the registry what the broker does: append, `adopt` or `reject`, release replies, tick.
The log can be made to fail, and can be read again into a new shard as after a restart.
"""

from collections.abc import Collection
from dataclasses import dataclass
from itertools import count
from typing import Any
from uuid import UUID

from headrace.groups.config import GroupConfig
from headrace.groups.effect import GroupEffects, Producer, Token
from headrace.groups.group import Group
from headrace.groups.record_codec import encode
from headrace.groups.registry import GroupRegistry
from headrace.groups.request import GroupReply, GroupRequest
from headrace.groups.topic import GroupTopic, TopicImage
from headrace.model.ids import ProducerId


@dataclass(frozen=True)
class LoggedRecord:
    """One record as the log holds it."""

    key: bytes
    value: bytes | None
    producer: Producer | None


@dataclass(frozen=True)
class LoggedMarker:
    """The end of a transaction as the log holds it."""

    producer_id: ProducerId
    commit: bool


class ChangingTopics:
    """A `TopicSource` whose topics are those of `image`: assign the next one to change them."""

    def __init__(self, image: TopicImage) -> None:
        self.image = image

    @property
    def version(self) -> int:
        return self.image.version

    def by_name(self, name: str) -> GroupTopic | None:
        return self.image.by_name(name)

    def by_id(self, topic_id: UUID) -> GroupTopic | None:
        return self.image.by_id(topic_id)

    def names(self) -> Collection[str]:
        return self.image.names()


class GroupShard:
    """A shard of `__consumer_offsets` in memory: a registry and its log.

    Attributes:
        topics: what the registry sees of topics.
        log: everything appended, in order.
        answers: for each token every answer it got; more than one is a fault of the registry.
        fail_appends: while True every append fails and is rejected.
        wall_skew_ms: how far the wall clock is ahead of `now_ms`.
    """

    def __init__(
        self,
        config: GroupConfig | None = None,
        topics: TopicImage | None = None,
        now_ms: int = 1_700_000_000_000,
    ) -> None:
        self.config = config or GroupConfig()
        self.topics = ChangingTopics(topics or TopicImage())
        self.now_ms = now_ms
        self.log: list[LoggedRecord | LoggedMarker] = []
        self.answers: dict[Token, list[Any]] = {}
        self.fail_appends = False
        self.wall_skew_ms = 0
        self._replica: GroupRegistry | None = None
        self._replicated = 0
        self._tokens = count(1)
        self._ids = count(1)
        self.registry = GroupRegistry(
            self.config,
            self.topics,
            new_id=lambda: f"id{next(self._ids)}",
            wall_skew_ms=lambda: self.wall_skew_ms,
        )

    def send(self, request: GroupRequest[GroupReply]) -> Token:
        """Send a request to the registry and return the token of its reply."""
        token = next(self._tokens)
        self.run(self.registry.handle(request, token, self.now_ms))
        return token

    def ask(self, request: GroupRequest[GroupReply]) -> Any:
        """Send a request that is answered at once, and return the answer."""
        return self.answer(self.send(request))

    def group(self, group_id: str) -> Group | None:
        """Return the group's state machine, to look inside."""
        return self.registry._table.groups.get(group_id)

    def answer(self, token: Token) -> Any:
        """Return the answer to `token`."""
        answers = self.answers.get(token, [])
        assert len(answers) == 1, f"request {token} has {len(answers)} answers"
        return answers[0]

    def is_parked(self, token: Token) -> bool:
        return token not in self.answers

    def run(self, effects: GroupEffects) -> None:
        """Append, call `adopt` or `reject`, release the replies."""
        if effects.records and self.fail_appends:
            effects = self.registry.reject(self.now_ms)
        elif effects.records:
            self.log += [
                LoggedRecord(*encode(record), effects.producer) for record in effects.records
            ]
            self.registry.adopt()
        for each in effects.replies:
            self.answers.setdefault(each.token, []).append(each.reply)

    def end_transaction(self, producer_id: ProducerId, *, commit: bool) -> None:
        """Append a transaction marker."""
        self.log.append(LoggedMarker(producer_id, commit))
        self.registry.complete_transaction(producer_id, commit=commit)

    def advance(self, duration_ms: int) -> None:
        """Let time pass, waking the registry exactly when it asked for it."""
        end_ms = self.now_ms + duration_ms
        while (deadline_ms := self.registry.deadline_ms()) is not None and deadline_ms <= end_ms:
            self.now_ms = max(self.now_ms, deadline_ms)
            while (effects := self.registry.tick(self.now_ms)) is not None:
                self.run(effects)
        self.now_ms = end_ms

    def sweep(self) -> None:
        """Expire offsets and groups, as the broker does now and then."""
        for group_id in self.registry.group_ids():
            self.run(self.registry.expire(group_id, self.now_ms))

    def durable_group(self, group_id: str) -> Group | None:
        """Return the group's state machine as the log alone gives it."""
        return self.replica()._table.groups.get(group_id)

    def replica(self) -> GroupRegistry:
        """Return a registry that only reads the log, to compare with the live one.

        It is kept and reads on from where it was, so a test may call this after every step.
        """
        if self._replica is None:
            self._replica = GroupRegistry(self.config, self.topics)
        _replay(self.log[self._replicated :], self._replica)
        self._replicated = len(self.log)
        return self._replica

    def reopened(self, *, compacted: bool = False) -> "GroupShard":
        """Return a new shard from the same log, as after a restart; parked requests are lost.

        Args:
            compacted: keep only the last record of each key, as compaction does in the end.
        """
        shard = GroupShard(self.config, self.topics.image, self.now_ms)
        shard.log = _compacted(self.log) if compacted else list(self.log)
        shard._ids = count(10_000 + len(self.log))
        _replay(shard.log, shard.registry)
        shard.registry.start(self.now_ms)
        return shard


def _compacted(log: list[LoggedRecord | LoggedMarker]) -> list[LoggedRecord | LoggedMarker]:
    last = {entry.key: entry for entry in log if isinstance(entry, LoggedRecord)}
    return [entry for entry in log if isinstance(entry, LoggedMarker) or last[entry.key] is entry]


def _replay(log: list[LoggedRecord | LoggedMarker], registry: GroupRegistry) -> None:
    for entry in log:
        if isinstance(entry, LoggedMarker):
            registry.complete_transaction(entry.producer_id, commit=entry.commit)
        else:
            registry.replay(entry.key, entry.value, entry.producer)
