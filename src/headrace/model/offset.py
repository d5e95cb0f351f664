"""Offsets, one type for each meaning, and the order that always holds between them:

    log start <= last stable <= high watermark <= log end

A function that wants the last stable offset does not type-check with a log end offset.
"""

from typing import NewType

Offset = NewType("Offset", int)
"""The position of one record in its partition."""

LogStartOffset = NewType("LogStartOffset", int)
"""The first offset that can be read; retention and DeleteRecords move it up."""

LastStableOffset = NewType("LastStableOffset", int)
"""Where the oldest open transaction begins, or the high watermark; read_committed ends here."""

HighWatermark = NewType("HighWatermark", int)
"""Every record below it is on all in-sync replicas; an ordinary reader ends here."""

LogEndOffset = NewType("LogEndOffset", int)
"""The offset the next appended record gets."""

RecoveryPoint = NewType("RecoveryPoint", int)
"""Every byte below it is known to be on disk: recovery starts here."""

NO_OFFSET = Offset(-1)
NO_TIMESTAMP_MS = -1
