"""Every handler there is. An API that is not here is not advertised and not served."""

from types import ModuleType

from headrace.broker.handlers import (
    api_versions,
    create_topics,
    delete_records,
    describe_producers,
    fetch,
    list_offsets,
    metadata,
    offset_for_leader_epoch,
    produce,
)

HANDLERS: tuple[ModuleType, ...] = (
    api_versions,
    create_topics,
    delete_records,
    describe_producers,
    fetch,
    list_offsets,
    metadata,
    offset_for_leader_epoch,
    produce,
)
