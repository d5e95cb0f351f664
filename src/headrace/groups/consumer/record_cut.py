"""Where the records of a heartbeat may be cut, so that they need not be one batch.

The broker derives most of them: what regular expressions match, and the target of every member.
They grow with the topics and the members, whatever the request says. A crash may keep the batches
before a cut and lose those behind it, and nothing was answered then. Each kept state is one from
which the next heartbeat goes on:

Rule 1: matches come first. After a reload every expression is matched again. The hash of the
        subscribed topics then differs from that of the group's epoch, and the target is computed.
Rule 2: what a member reports and the group's new epoch stay together: a subscription that is known
        already is no reason for a new epoch.
Rule 3: targets come behind the group's epoch and before the target's. As long as the two epochs
        differ, targets are only what the next ones are computed from.
Rule 4: the target's epoch and what the member holds then come last, together.
Rule 5: a group that passes from the classic protocol does so with the records of rule 2. Matches
        come no earlier then: records of one protocol end a group of the other.
"""

from collections.abc import Sequence
from typing import NamedTuple

from headrace.groups.record import (
    CurrentAssignmentRecord,
    GroupMetadataRecord,
    GroupRecord,
    RegexRecord,
    TargetEpochRecord,
    TargetMemberRecord,
)


class RecordCut(NamedTuple):
    """Records in the order in which they are written.

    Attributes:
        matches: of regular expressions; may be cut anywhere.
        whole: what must not be cut.
        targets: of members; may be cut anywhere.
        end: what must not be cut, either.
    """

    matches: Sequence[GroupRecord]
    whole: Sequence[GroupRecord]
    targets: Sequence[GroupRecord]
    end: Sequence[GroupRecord]


def cut(records: Sequence[GroupRecord]) -> RecordCut:
    """Return the records of one event, cut where a crash does no harm."""
    end = _end(records)
    first = end
    while first > 0 and end < len(records) and _is_target(records[first - 1]):
        first -= 1
    matches: list[GroupRecord] = []
    whole: list[GroupRecord] = []
    ahead = _cut_ahead(records)
    for each in records[:first]:
        is_ahead = isinstance(each, RegexRecord) and each.regex in ahead
        (matches if is_ahead else whole).append(each)
    return RecordCut(matches, whole, records[first:end], records[end:])


def _end(records: Sequence[GroupRecord]) -> int:
    """Return where the target's epoch begins the end of a heartbeat; behind the last record if it
    does not."""
    for index in range(len(records) - 1, -1, -1):
        each = records[index]
        if isinstance(each, TargetEpochRecord) and each.value is not None:
            return index
        if not isinstance(each, CurrentAssignmentRecord):
            break
    return len(records)


def _cut_ahead(records: Sequence[GroupRecord]) -> set[str]:
    """Return the regular expressions whose matches may come first (rules 1 and 5)."""
    if any(isinstance(each, GroupMetadataRecord) for each in records):
        return set()
    regexes = [each for each in records if isinstance(each, RegexRecord)]
    return {each.regex for each in regexes} - {each.regex for each in regexes if not each.value}


def _is_target(record: GroupRecord) -> bool:
    return isinstance(record, TargetMemberRecord) and record.value is not None
