"""The map of mirrors: clusters as boxes, and each flow between two as an arrow with lag and age."""

from collections.abc import Collection, Sequence
from typing import Any

from headrace.console.layered_layout import Arrow, LayeredLayout
from headrace.console.status.mirror_status import MirrorCluster, MirrorFlowStatus


def mirror_map(
    flows: Sequence[MirrorFlowStatus], rates: Sequence[float], here: Collection[str]
) -> dict[str, Any]:
    """Return the map as the page draws it.

    Args:
        rates: the offsets that each flow copies per second.
        here: the addresses of the console's own cluster, which is marked.
    """
    clusters: dict[str, MirrorCluster] = {}
    pairs: dict[Arrow, MirrorFlowStatus] = {}
    copied: dict[Arrow, float] = {}
    for flow, rate in zip(flows, rates, strict=True):
        arrow = flow.source.id, flow.target.id
        clusters |= {flow.source.id: flow.source, flow.target.id: flow.target}
        # Several files may have flows between the same clusters.
        pairs[arrow] = flow if arrow not in pairs else pairs[arrow].together_with(flow)
        copied[arrow] = copied.get(arrow, 0.0) + rate
    layout = LayeredLayout.of(list(clusters), pairs)
    return {
        "nodes": {
            each.id: {
                "kind": "kafka-cluster",
                "name": each.alias,
                "note": each.addresses[0] if each.addresses else "",
                "title": f"{each.alias}: {', '.join(each.addresses)}",
                "here": not set(here).isdisjoint(each.addresses),
                "status": "",
            }
            for each in clusters.values()
        },
        "layers": layout.layers,
        "arrows": [
            {"path": layout.paths[arrow], **pair.figures(copied[arrow])}
            for arrow, pair in pairs.items()
        ],
    }
