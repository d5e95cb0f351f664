"""All mirror links of a broker, kept in line with the cluster's state.

A topic that names a link in `headrace.mirror.link` is a mirror: clients read it, and whichever
broker leads one of its partitions copies that partition. When the topic's state is `stopped`,
nothing is copied any more, and what the source's producers left is fenced.
"""

import asyncio
from collections.abc import Iterator, Mapping

import structlog

from headrace.broker.config.settings import BrokerSettings
from headrace.broker.mirror.mirror_follower import MirrorFollower
from headrace.broker.mirror.mirror_link import MirrorHost, MirrorLink
from headrace.broker.mirror.producer_fence import put_up_fence
from headrace.broker.mirror.source_cluster import SourceAccess, SourceCluster
from headrace.broker.replica.partition import Partition
from headrace.broker.replica.topic_table import TopicTable
from headrace.model.error import ConfigError, HeadraceError
from headrace.model.ids import TopicPartition

log = structlog.get_logger(__name__)

_LOOK_SECONDS = 0.25
_STOPPED = "stopped"
_FENCED_AT_ONCE = 5


class MirrorLinks:
    """Threads: event loop only."""

    def __init__(self, host: MirrorHost, settings: BrokerSettings, topics: TopicTable) -> None:
        self._host = host
        self._settings = settings
        self._topics = topics
        self._configured: dict[str, Mapping[str, str]] = {}
        self._links: dict[str, tuple[Mapping[str, str], MirrorLink]] = {}
        self._fenced: set[Partition] = set()
        self._closing: set[asyncio.Task[None]] = set()
        self._seen: tuple[int, int] | None = None
        self._changes = 0
        self._task: asyncio.Task[None] | None = None

    def set_links(self, configured: Mapping[str, Mapping[str, str]]) -> None:
        """Adopt the links of the cluster's state."""
        self._configured = dict(configured)
        self.changed()

    def changed(self) -> None:
        """Look again, soon: a topic's configuration has changed."""
        self._changes += 1
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    def followers(self) -> Iterator[tuple[str, MirrorFollower]]:
        """Iterate over what is copied, with the link's name."""
        for name, (_, link) in self._links.items():
            for follower in link.followers():
                yield name, follower

    def stopped(self) -> dict[TopicPartition, str]:
        """Return the partitions that are not copied any more, and why."""
        return {
            partition: reason
            for _, link in self._links.values()
            for partition, reason in link.stopped().items()
        }

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        for name in list(self._links):
            self._end(name)
        if self._closing:
            await asyncio.gather(*self._closing, return_exceptions=True)

    async def _run(self) -> None:
        """Compare versions four times a second: what a broker leads changes in many places."""
        while True:
            now = self._topics.version, self._changes
            if now != self._seen:
                try:
                    self._reconcile()
                except Exception as error:
                    log.error("mirror_links_failed", exc_info=error)
                else:
                    self._seen = now
            await asyncio.sleep(_LOOK_SECONDS)

    def _reconcile(self) -> None:
        wanted: dict[str, list[Partition]] = {}
        stopped: list[Partition] = []
        for topic in self._topics:
            for partition in topic.partitions:
                if partition is None or not partition.log.config.headrace_mirror_link:
                    continue
                config = partition.log.config
                if config.copies:
                    wanted.setdefault(config.headrace_mirror_link, []).append(partition)
                elif config.headrace_mirror_state == _STOPPED:
                    stopped.append(partition)
        for name, (configs, _) in list(self._links.items()):
            if name not in wanted or self._configured.get(name) != configs:
                self._end(name)
        for name, partitions in wanted.items():
            link = self._link(name)
            if link is not None:
                link.set_partitions(partitions)
        self._fence_some(stopped)

    def _link(self, name: str) -> MirrorLink | None:
        known = self._links.get(name)
        if known is not None:
            return known[1]
        configs = self._configured.get(name)
        if configs is None:
            log.warning("mirror_link_missing", link=name)
            return None
        try:
            access = SourceAccess.of(configs)
        except ConfigError as error:
            log.error("mirror_link_unusable", link=name, reason=str(error))
            return None
        link = MirrorLink(name, self._host, self._settings, SourceCluster(access))
        self._links[name] = configs, link
        return link

    def _end(self, name: str) -> None:
        _, link = self._links.pop(name)
        link.set_partitions(())
        closing = asyncio.get_running_loop().create_task(link.close())
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    def _fence_some(self, stopped: list[Partition]) -> None:
        """Fence a few partitions now, and the others when the loop comes here again."""
        fenced = 0
        for partition in stopped:
            if partition in self._fenced:
                continue
            if fenced == _FENCED_AT_ONCE:
                self._changes += 1
                break
            fenced += 1
            self._fence(partition)
        self._fenced.intersection_update(stopped)

    def _fence(self, partition: Partition) -> None:
        try:
            complete = put_up_fence(partition)
        except HeadraceError as error:
            log.debug("mirror_not_fenced", partition=str(partition.name), reason=str(error))
            complete = False
        if complete:
            self._fenced.add(partition)
        else:
            self._changes += 1
