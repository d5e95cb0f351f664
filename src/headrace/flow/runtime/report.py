"""What a task counted, told to the driver in datagrams.

Nothing waits for a report and nothing depends on it: one that is lost makes a figure smaller, and a
task that is done again counts again. The metrics topic has figures that commit with the batch.
"""

import json
import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from headrace.flow.runtime.tally import Tally

# Far below what a datagram can hold; names are bounded by the program that chose them.
_ROWS = 50
MAX_REPORT_BYTES = 32 * 1024


@dataclass(frozen=True, slots=True)
class ReportAddress:
    """Where reports go. `token` tells those of this run from anybody else's."""

    host: str
    port: int
    token: str


def send_report(address: ReportAddress, task: int, tallies: Mapping[str, Tally]) -> None:
    """Tell what a task has counted, if anything. Never raises, never blocks."""
    rows = [
        [name, each.executed, each.emitted, each.failed, each.busy_ns]
        for name, each in tallies.items()
        if each.executed or each.emitted or each.failed
    ]
    if not rows:
        return
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        for at in range(0, len(rows), _ROWS):
            told = {"token": address.token, "task": task, "rows": rows[at : at + _ROWS]}
            sender.sendto(json.dumps(told).encode(), (address.host, address.port))
