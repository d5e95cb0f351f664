"""The controller's term: which broker is the controller, and a number that fences its forerunners.

The holder is an ephemeral node, gone with its broker. The term is the version of a node that lasts:
taking over writes it, so that every commit of an earlier holder that checks it fails from then on.
"""

import json
from collections.abc import Sequence

from headrace.cluster.store import Create, Node, Update, Write
from headrace.model.ids import BrokerId

TERM_KIND = "controller"
CONTROLLER_PATH = f"/{TERM_KIND}/holder"
TERM_PATH = f"/{TERM_KIND}/term"


def term_writes(broker_id: BrokerId, before: Node | None) -> Sequence[Write]:
    """Take over; fails where there is a holder, or where another was faster. The term is last."""
    return [
        Create(CONTROLLER_PATH, json.dumps({"broker": broker_id}).encode(), ephemeral=True),
        Create(TERM_PATH, b"") if before is None else Update(TERM_PATH, b"", before.version),
    ]


def term_holder(node: Node | None) -> BrokerId | None:
    if node is None:
        return None
    try:
        return BrokerId(int(json.loads(node.data)["broker"]))
    except (ValueError, KeyError, TypeError):
        return None
