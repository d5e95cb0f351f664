"""What a task counted, sent to the driver in datagrams.

Nothing waits for a report and nothing depends on it: a lost report makes a figure smaller, and a
task that Spark repeats counts twice. The metrics topic has figures that commit with the batch.
"""

import json
import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from headrace.flow.runtime.tally import ComponentTally

# Rows per datagram: far below what it can hold, as long as component names are short.
_ROWS = 50
MAX_REPORT_BYTES = 32 * 1024


@dataclass(frozen=True, slots=True)
class ReportAddress:
    """Where reports go. The `token` marks the reports of this run."""

    host: str
    port: int
    token: str


def send_report(address: ReportAddress, task: int, tallies: Mapping[str, ComponentTally]) -> None:
    """Send what a task has counted, if anything. Never raises, and waits for no answer."""
    rows = [
        [name, each.executed, each.emitted, each.failed, each.busy_ns]
        for name, each in tallies.items()
        if each.executed or each.emitted or each.failed
    ]
    if not rows:
        return
    with suppress(OSError), _sender(address) as sender:
        sender.setblocking(False)
        for at in range(0, len(rows), _ROWS):
            report = {"token": address.token, "task": task, "rows": rows[at : at + _ROWS]}
            sender.send(json.dumps(report).encode())


def _sender(address: ReportAddress) -> socket.socket:
    """Return a socket connected to an address, or to a host's name of either family."""
    found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_DGRAM)
    family, _, _, _, target = found[0]
    sender = socket.socket(family, socket.SOCK_DGRAM)
    try:
        sender.connect(target)
    except OSError:
        sender.close()
        raise
    return sender
