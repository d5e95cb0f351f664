"""Garbage collection in Spark's Python workers, which run one task after the other.

Spark collects garbage after every task, over all objects of all modules that the worker has
imported. With Arrow, pandas and the kernels that takes 80 ms of a core, more than a small task.
Imported modules stay until the worker ends, so they are excluded from collection (`gc.freeze`).
"""

import gc
import sys

# A worker imports its modules in its first tasks. One that never stops importing is left alone.
_MAX_FREEZES = 8

_freezes = 0
_modules = 0


def freeze_modules() -> None:
    """Exclude the objects that are alive at the end of a task from later collections.

    Such an object that becomes part of a garbage cycle later is never collected. A task leaves
    none, and a bolt keeps its objects until the worker ends.
    """
    global _freezes, _modules
    if len(sys.modules) == _modules or _freezes == _MAX_FREEZES:
        return
    gc.collect()
    gc.freeze()
    _modules = len(sys.modules)
    _freezes += 1
