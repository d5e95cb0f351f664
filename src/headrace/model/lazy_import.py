"""Public names that a package loads from their files on first use.

A package offers its public classes under one import without loading any of them up front:
`import headrace.client` costs no pyarrow, and a Spark executor loads only what its task needs.

    __all__ = ["Reader"]

    if TYPE_CHECKING:
        from headrace.client.read.reader import Reader
    else:
        __getattr__, __dir__ = lazy_names(__name__, {"Reader": "headrace.client.read.reader"})

The import under `TYPE_CHECKING` gives type checkers and editors the real class. The `else` keeps
`__getattr__` out of their sight: they would accept any misspelt name of a module that has one.

A public name must differ from every file and folder of the package: importing a submodule sets
the attribute of its name on the package, and would replace the public name.
"""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(
    package: str, homes: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the module functions `__getattr__` and `__dir__` (PEP 562) of a package.

    Args:
        package: the package's `__name__`.
        homes: for each public name, the module that defines it.
    """

    def load(name: str) -> Any:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(home), name)
        setattr(sys.modules[package], name, value)  # the next look-up does not come here
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes})

    return load, names
