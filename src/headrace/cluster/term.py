"""The controller's term: which broker is the controller, and a number that fences earlier ones.

The holder is an ephemeral node, gone with its broker. The term is the version of a node that lasts.
A new controller writes it, and from then on every commit of an earlier one that checks it fails.
"""

import json
from collections.abc import Sequence

from headrace.cluster.store import CreateNode, Node, UpdateNode, Write
from headrace.model.ids import BrokerId

TERM_KIND = "controller"
CONTROLLER_PATH = f"/{TERM_KIND}/holder"
TERM_PATH = f"/{TERM_KIND}/term"


def term_writes(broker_id: BrokerId, before: Node | None) -> Sequence[Write]:
    """Return the writes that make a broker the controller; they conflict if there is one.

    The write of the term is the last one.
    """
    return [
        CreateNode(CONTROLLER_PATH, json.dumps({"broker": broker_id}).encode(), ephemeral=True),
        CreateNode(TERM_PATH, b"")
        if before is None
        else UpdateNode(TERM_PATH, b"", before.version),
    ]


def term_holder(node: Node | None) -> BrokerId | None:
    if node is None:
        return None
    try:
        return BrokerId(int(json.loads(node.data)["broker"]))
    except (ValueError, KeyError, TypeError):
        return None
