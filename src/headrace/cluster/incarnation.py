"""The node of a broker that outlives its registrations: `/incarnations/<id>`.

Its version counts the registrations, and is the broker's epoch. It holds the ids of the log
directories that the broker registered last, separated by blanks.
"""

from collections.abc import Callable, Iterable

from headrace.cluster.store import Node, node_path
from headrace.model.ids import BrokerId

# Returns the log directories to register; it is given those that were registered last.
ChooseDirectories = Callable[[frozenset[str]], tuple[str, ...]]


def path_of(broker_id: BrokerId) -> str:
    return node_path("incarnations", str(broker_id))


def data_of(directory_ids: Iterable[str]) -> bytes:
    return " ".join(directory_ids).encode()


def directories_of(node: Node | None) -> frozenset[str]:
    """Return the directories of the last registration; none from an earlier release."""
    return frozenset() if node is None else frozenset(node.data.decode().split())
