"""Topologies of YAML files, in the format of Storm's Flux.

`read_topology` returns the topology of a file; a `FluxError` reports a mistake with its file and
line. Both names are loaded on first use.
"""

from typing import TYPE_CHECKING

from headrace.model.lazy_import import lazy_names

__all__ = ["FluxError", "read_topology"]

if TYPE_CHECKING:
    from headrace.flow.flux.document import FluxError
    from headrace.flow.flux.topology_file import read_topology
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "FluxError": "headrace.flow.flux.document",
            "read_topology": "headrace.flow.flux.topology_file",
        },
    )
