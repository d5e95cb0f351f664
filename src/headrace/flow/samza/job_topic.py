"""The topics of a job: its inputs, its changelogs, and its own control topics."""

from collections.abc import Iterable, Mapping

from headrace.client.admin.admin import Admin, NewTopic
from headrace.client.error import ClientError
from headrace.client.network.pool import ConnectionPool
from headrace.client.read.read_range import LogEdge, ReadRange
from headrace.client.read.reader import Reader
from headrace.client.settings import ClientSettings
from headrace.flow.error import FlowError
from headrace.model.ids import TopicPartition
from headrace.wire.error_code import ErrorCode


class JobTopics:
    """Reads and creates topics of one cluster.

    Args:
        client: settings of a client, such as bootstrap.servers.
    """

    def __init__(self, client: Mapping[str, str]) -> None:
        self._client = dict(client)

    def partitions(self, topics: Iterable[str]) -> dict[str, int]:
        """Return the number of partitions of each topic.

        Raises:
            FlowError: a topic does not exist, or no broker answers.
        """
        names = list(topics)
        try:
            with ConnectionPool(ClientSettings.of(self._client)) as pool:
                known = pool.metadata(names).topics
        except ClientError as error:
            raise FlowError(
                f"the brokers of {', '.join(names)} cannot be asked: {error}"
            ) from error
        counts = {}
        for name in names:
            topic = known.get(name)
            if topic is None or topic.error is not None or not topic.partitions:
                raise FlowError(
                    f"the input {name} is no topic yet: create it first (--create-topics does),"
                    " because its partitions decide how many tasks there are"
                )
            counts[name] = len(topic.partitions)
        return counts

    def ensure(self, topics: Iterable[NewTopic]) -> None:
        """Create topics that are missing, and add partitions to those that have too few.

        Raises:
            FlowError: a broker refuses.
        """
        by_name = {each.name: each for each in topics}
        if not by_name:
            return
        with ConnectionPool(ClientSettings.of(self._client)) as pool:
            admin = Admin(pool)
            existing = []
            for name, error in admin.create_topics(list(by_name.values())).items():
                if error is None:
                    continue
                if error.code is not ErrorCode.topic_already_exists:
                    raise FlowError(f"the job's topic {name} cannot be created: {error}") from error
                existing.append(name)
            known = pool.metadata(existing).topics if existing else {}
            grown = {
                name: by_name[name].partitions
                for name in existing
                if 0 < len(known[name].partitions) < by_name[name].partitions
            }
            for name, error in admin.create_partitions(grown).items() if grown else ():
                if error is not None:
                    raise FlowError(
                        f"the job's topic {name} needs {grown[name]} partitions: {error}"
                    ) from error

    def ends(self, topic: str) -> dict[int, int]:
        """Return the end of each partition, for readers of committed records."""
        with Reader.of_topics(
            self._client, topic, start=LogEdge.LATEST, read_committed=True
        ) as reader:
            return {each.partition: offset for each, offset in reader.positions.items()}

    def records(self, topic: str) -> dict[bytes, bytes]:
        """Return the last value of each key in a topic's first partition."""
        values_by_key: dict[bytes, bytes] = {}
        ranges = {TopicPartition(topic, 0): ReadRange(end=LogEdge.LATEST)}
        columns = ["key", "value"]
        with Reader(self._client, ranges, columns=columns, read_committed=True) as reader:
            for chunk in reader:
                keys, values = (chunk.columns.column(each).to_pylist() for each in columns)
                values_by_key.update(zip(keys, values, strict=True))
        return values_by_key
