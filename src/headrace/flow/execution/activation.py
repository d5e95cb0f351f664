"""Whether a flow is active, in a file of its checkpoint.

As in Storm, a flow that was deactivated reads nothing until it is activated: its spouts emit
nothing and no batch runs, while its process, its state and its progress stay. The file lies in the
checkpoint, so that a flow is still inactive after a restart, on whichever machine.
"""

from typing import Final

from headrace.flow.error import FlowError
from headrace.flow.storage.file_store import FileStore

_FILE: Final = "inactive"


class Activation:
    """The flow is inactive while the file exists.

    Crash: a change is durable when the method returns.
    """

    def __init__(self, checkpoint: FileStore) -> None:
        self._checkpoint = checkpoint

    @property
    def active(self) -> bool:
        return not self._checkpoint.exists(_FILE)

    def activate(self) -> None:
        self._checkpoint.remove(_FILE)

    def deactivate(self) -> None:
        self._checkpoint.write(_FILE, b"")

    def check(self, name: str) -> None:
        """Refuse to start a flow that is inactive.

        Raises:
            FlowError: it is; the message says how to activate it.
        """
        if not self.active:
            raise FlowError(
                f"{name} was deactivated, and its checkpoint {self._checkpoint.text} says so: start"
                f" it with headrace flow run, then headrace flow activate {name}; or remove the"
                f" file {_FILE} from the checkpoint"
            )
