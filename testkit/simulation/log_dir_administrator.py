"""What operators do besides, in a history whose brokers have several log directories."""

from collections.abc import Callable, Mapping
from typing import ClassVar

from headrace.cluster.controller import Controller
from headrace.cluster.quota import QuotaEntity
from headrace.model.error import InvalidArgument, StorageError
from testkit.simulation.seam_administrator import SeamAdministrator
from testkit.simulation.seam_broker import SeamBroker

_ENTITIES: tuple[QuotaEntity, ...] = (
    (("user", "anna"),),
    (("user", None),),
    (("client-id", "c"),),
    (("client-id", "c"), ("user", "anna")),
)
_RATES = (1000.0, 5000.0, None)


class LogDirAdministrator(SeamAdministrator):
    """Moves logs between directories, and changes quotas of clients, too."""

    def _move_log(self, broker: SeamBroker) -> None:
        """Do what the handler of AlterReplicaLogDirs does."""
        held = {each for one in broker.storage.directories for each in one.partitions}
        name = self._random.choice(sorted(held)) if held else self._partition(broker)
        target = self._random.choice(broker.storage.directories)
        topic = broker.topics.by_name(name.topic)
        self._say(f"moves the log of {name} to {target.path} at broker {broker.broker_id}")
        if topic is None or not 0 <= name.partition < len(topic.partitions):
            broker.storage.choose(name, target)
            return
        topic_id = topic.topic_id

        async def move() -> None:
            try:
                await broker.in_thread(lambda: broker.storage.move(name, topic_id, target))
            except (StorageError, InvalidArgument) as error:
                broker.say(f"does not move {name}: {error}")

        broker.loop.run(lambda: broker.loop.create_task(move()))

    def _alter_quota(self, broker: SeamBroker) -> None:
        entity = self._random.choice(_ENTITIES)
        rate = self._random.choice(_RATES)
        self._say(f"sets producer_byte_rate of {entity} to {rate}")

        def alter(controller: Controller) -> None:
            controller.alter_quota(entity, {"producer_byte_rate": rate})

        broker.administer(alter)

    actions: ClassVar[Mapping[str, Callable[..., None]]] = {
        **SeamAdministrator.actions,
        "log moved": _move_log,
        "log moved, too": _move_log,
        "quota": _alter_quota,
    }
