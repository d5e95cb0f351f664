"""Garbage collection in Spark's Python workers, which serve one task after the other.

Spark collects after every task, over everything the worker has ever imported: with Arrow, pandas
and the kernels that is some 80 ms of a core, more than a small task takes. What is imported stays
until the worker ends, so it is taken out of the collector's sight.
"""

import gc
import sys

# A worker imports what it needs in its first tasks; one that never stops importing is left alone.
_MAX_FREEZES = 8

_freezes = 0
_modules = 0


def settle() -> None:
    """Call it at the end of a task. What is alive and imported is not looked at again.

    Objects that are in sight now and become a cycle of garbage later are never collected: a task
    keeps none, and what a bolt keeps it keeps for good.
    """
    global _freezes, _modules
    if len(sys.modules) == _modules or _freezes == _MAX_FREEZES:
        return
    gc.collect()
    gc.freeze()
    _modules = len(sys.modules)
    _freezes += 1
