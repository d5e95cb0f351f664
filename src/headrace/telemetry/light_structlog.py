"""structlog without rich.

structlog imports rich, if it is installed, to print tracebacks in colour. Log lines here never do
(`logging.configure` formats tracebacks itself), and the import takes a tenth of a broker's start.
"""

import importlib
import sys


def load_structlog() -> None:
    """Import structlog, unless it is imported already, and hide rich from it meanwhile.

    Others import rich later as usual. Call it before the first import of a module that logs, while
    no other thread imports anything.
    """
    if "structlog" in sys.modules or "rich" in sys.modules:
        return
    sys.modules["rich"] = None  # type: ignore[assignment]  # what Python documents: not importable
    try:
        importlib.import_module("structlog")
    finally:
        del sys.modules["rich"]
