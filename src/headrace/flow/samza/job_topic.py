"""The topics of a job: its inputs as they are, and those that it keeps about itself."""

from collections.abc import Iterable, Mapping

from headrace.client.admin.admin import Admin, NewTopic
from headrace.client.error import ClientError
from headrace.client.network.pool import ConnectionPool
from headrace.client.read.read_range import Offset, ReadRange
from headrace.client.read.reader import Reader
from headrace.client.settings import ClientSettings
from headrace.flow.error import FlowError
from headrace.model.ids import TopicPartition
from headrace.wire.error_code import ErrorCode


class JobTopics:
    """Asks one cluster.

    Args:
        client: settings of a client, such as bootstrap.servers.
    """

    def __init__(self, client: Mapping[str, str]) -> None:
        self._client = dict(client)

    def partitions(self, topics: Iterable[str]) -> dict[str, int]:
        """How many partitions each has.

        Raises:
            FlowError: one is not there, or nobody answers.
        """
        wanted = list(topics)
        try:
            with ConnectionPool(ClientSettings.of(self._client)) as pool:
                known = pool.metadata(wanted).topics
        except ClientError as error:
            raise FlowError(
                f"the brokers of {', '.join(wanted)} cannot be asked: {error}"
            ) from error
        found = {}
        for name in wanted:
            topic = known.get(name)
            if topic is None or topic.error is not None or not topic.partitions:
                raise FlowError(
                    f"the input {name} is no topic yet: create it first (--create-topics does),"
                    " because its partitions decide how many tasks there are"
                )
            found[name] = len(topic.partitions)
        return found

    def ensure(self, topics: Iterable[NewTopic]) -> None:
        """Make topics that are not there, and more partitions where they have too few.

        Raises:
            FlowError: a broker says no.
        """
        wanted = {each.name: each for each in topics}
        if not wanted:
            return
        with ConnectionPool(ClientSettings.of(self._client)) as pool:
            admin = Admin(pool)
            there = []
            for name, error in admin.create_topics(list(wanted.values())).items():
                if error is None:
                    continue
                if error.code is not ErrorCode.topic_already_exists:
                    raise FlowError(f"the job's topic {name} cannot be created: {error}") from error
                there.append(name)
            known = pool.metadata(there).topics if there else {}
            grown = {
                name: wanted[name].partitions
                for name in there
                if 0 < len(known[name].partitions) < wanted[name].partitions
            }
            for name, error in admin.create_partitions(grown).items() if grown else ():
                if error is not None:
                    raise FlowError(
                        f"the job's topic {name} needs {grown[name]} partitions: {error}"
                    ) from error

    def ends(self, topic: str) -> dict[int, int]:
        """Where each partition ends, for readers of what is committed."""
        with Reader.of_topics(
            self._client, topic, start=Offset.LATEST, read_committed=True
        ) as reader:
            return {each.partition: offset for each, offset in reader.positions.items()}

    def records(self, topic: str) -> dict[bytes, bytes]:
        """The last value of each key in a topic's first partition."""
        found: dict[bytes, bytes] = {}
        ranges = {TopicPartition(topic, 0): ReadRange(end=Offset.LATEST)}
        columns = ["key", "value"]
        with Reader(self._client, ranges, columns=columns, read_committed=True) as reader:
            for chunk in reader:
                keys, values = (chunk.columns.column(each).to_pylist() for each in columns)
                found.update(zip(keys, values, strict=True))
        return found
