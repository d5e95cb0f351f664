"""What all resources of API v3 have in common: a kind, links and a name."""

from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

from headrace.client.error import BrokerError
from headrace.client.network.metadata import TopicMetadata
from headrace.gateway.rest.access.right import Right
from headrace.gateway.rest.error import RestError
from headrace.gateway.rest.request import Call
from headrace.model.error import InvalidArgument
from headrace.model.topic_config import MIRROR_KEYS
from headrace.wire.error_code import ErrorCode

MISSING_TOPIC = "This server does not host this topic-partition."


def check_cluster(call: Call) -> None:
    """Refuse a request about another cluster than the one behind the proxy.

    Raises:
        RestError: it is another.
    """
    wanted = call.request.path["cluster_id"]
    if wanted != call.cluster_id:
        raise RestError(404, f"Cluster {wanted} cannot be found.")


def check_topic_keys(call: Call, keys: Iterable[str]) -> None:
    """Refuse keys of a topic's configuration that take more than a right to the topic.

    Keys of mirrors make a topic show what a link may read in another cluster. The broker asks for a
    right on the cluster, but it sees the proxy's login, not the user's.

    Raises:
        RestError: 40301.
    """
    if any(each.startswith(MIRROR_KEYS) for each in keys):
        call.request.caller.check_path(Right.CLUSTER, call.request.path)


def url(call: Call, *path: object) -> str:
    """Return the address of something in the cluster."""
    parts = [quote(str(each), safe="-._~:") for each in path]
    return "/".join((f"{call.base_url}/v3/clusters/{quote(call.cluster_id, safe='')}", *parts))


def related(call: Call, *path: object) -> dict[str, str]:
    """Return a link to something else."""
    return {"related": url(call, *path)}


def resource(
    call: Call, kind: str, path: Iterable[object], name: str, /, **fields: Any
) -> dict[str, Any]:
    """Return one resource.

    Args:
        kind: such as `KafkaTopic`.
        path: where it is, below the cluster.
        name: what follows the cluster in its name, such as `topic=clicks`; empty for the cluster.
    """
    crn = f"crn:///kafka={call.cluster_id}"
    return {
        "kind": kind,
        "metadata": {
            "self": url(call, *path),
            "resource_name": f"{crn}/{name}" if name else crn,
        },
        "cluster_id": call.cluster_id,
        **fields,
    }


def collection(
    call: Call, kind: str, path: Iterable[object], data: list[dict[str, Any]]
) -> dict[str, Any]:
    """Return all resources of a kind. There is always one page."""
    return {
        "kind": kind,
        "metadata": {"self": url(call, *path), "next": None},
        "data": data,
    }


def find_topic(call: Call, name: str) -> TopicMetadata:
    """Return a topic's metadata.

    Raises:
        RestError: there is no such topic.
    """
    try:
        topic = call.pool.metadata([name]).topics.get(name)
    except (InvalidArgument, UnicodeEncodeError):
        topic = None
    if topic is None or topic.error is not None:
        error = None if topic is None else topic.error
        if error is not None and error.code is not ErrorCode.invalid_topic_exception:
            raise error
        raise RestError(404, MISSING_TOPIC, 40403)
    return topic


def raise_outcome(outcome: BrokerError | None) -> None:
    """Raise what a call for one item returned in its place."""
    if outcome is not None:
        raise outcome


def text_field(fields: dict[str, Any], name: str, default: str | None = None) -> str:
    """Return a text of a body.

    Raises:
        RestError: it is missing or no text.
    """
    value = fields.get(name, default)
    if not isinstance(value, str):
        raise RestError(400, f"{name} has to be a text.")
    return value


def number_field(fields: dict[str, Any], name: str, default: int, least: int = -1) -> int:
    """Return a number of a body.

    Raises:
        RestError: it is no number of 32 bits.
    """
    value = fields.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value < 2**31:
        raise RestError(400, f"{name} has to be a number from {least} to {2**31 - 1}.")
    return value


def list_field(fields: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """Return a list of objects of a body; an empty one if it is missing.

    Raises:
        RestError: it is something else.
    """
    value = fields.get(name) or []
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise RestError(400, f"{name} has to be a list of objects.")
    return value
