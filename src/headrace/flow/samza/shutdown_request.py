"""A task's request to end the job, as a record of the coordinator topic."""

import json

from headrace.flow.samza.coordinator import RequestScope


def shutdown_request(task: int, scope: RequestScope) -> tuple[bytes, bytes]:
    """Return the key and the value of the record; `shutdown` reads it."""
    value = json.dumps({"task": task, "shutdown": scope.value})
    return f"Partition {task}".encode(), value.encode()
