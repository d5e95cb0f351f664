"""Activating and deactivating a flow of this machine by its name, as Storm's client does."""

from headrace.flow.monitoring.run_folder import RunFolder


def activate(name: str) -> None:
    """Let a flow that was deactivated read again, from where it stopped; return when it does.

    Args:
        name: the name or pid of a flow that `headrace flow run` runs on this machine.

    Raises:
        FlowError: there is no such flow, or it could not start again.
    """
    runs = RunFolder()
    runs.activate(runs.find(name))


def deactivate(name: str) -> None:
    """Let a flow read nothing after its current batch; return when it is inactive.

    Its process, state and progress stay. It is still inactive when it is run again.

    Args:
        name: the name or pid of a flow that `headrace flow run` runs on this machine.

    Raises:
        FlowError: there is no such flow, or its last batch failed.
    """
    runs = RunFolder()
    runs.deactivate(runs.find(name))
