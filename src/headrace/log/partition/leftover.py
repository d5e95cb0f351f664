"""What a crash, a compaction or a delayed deletion left in a partition's directory."""

from dataclasses import dataclass, field
from pathlib import Path

from headrace.log.producer.producer_snapshot import snapshot_offset
from headrace.log.segment.batch_scan import walk_heads
from headrace.log.segment.segment_name import (
    CLEANED,
    DELETED,
    LOG,
    SEGMENT_SUFFIXES,
    SWAP,
    parse_segment_file_name,
    segment_file_name,
)
from headrace.log.storage import Storage

_SCRATCH = ".tmp"  # of FileSystem.write_atomically


@dataclass(slots=True)
class PartitionFiles:
    """The directory after tidying.

    Attributes:
        segments: suffixes of the files of each segment, by base offset.
        snapshots: offsets of the producer snapshots.
    """

    segments: dict[int, set[str]] = field(default_factory=dict)
    snapshots: list[int] = field(default_factory=list)
    changed: bool = False


def tidy(storage: Storage, directory: Path) -> PartitionFiles:
    """Finish or undo what was going on, remove what has no use, and list what is left.

    Rule 1: `.deleted`, `.tmp` and `.cleaned` go. Files of a segment without its `.log` go too.
    Rule 2: `.swap` at or above a `.cleaned` go as well: the exchange they belong to had not been
        prepared whole, and the old segments are all there.
    Rule 3: any other `.swap` takes its place; the segments whose offsets it covers go.
    """
    files, swaps, cleaned, doomed = _sort(storage.filesystem.list(directory))
    _finish_swaps(storage, directory, files, swaps, min(cleaned, default=None))
    for base_offset in [base for base, suffixes in files.segments.items() if LOG not in suffixes]:
        suffixes = files.segments.pop(base_offset)
        doomed.extend(segment_file_name(base_offset, suffix) for suffix in suffixes)
    for name in doomed:
        storage.filesystem.remove(directory / name)
        files.changed = True
    if files.changed:
        storage.filesystem.sync_directory(directory)
    return files


def _sort(names: list[str]) -> tuple[PartitionFiles, dict[int, set[str]], list[int], list[str]]:
    """Sort the names into what stays, what is to be swapped in, the base offsets of what is
    `.cleaned`, and what goes.
    """
    files = PartitionFiles()
    swaps: dict[int, set[str]] = {}
    cleaned: list[int] = []
    doomed: list[str] = []
    for name in names:
        parsed = parse_segment_file_name(name)
        if parsed is None:
            if name.endswith(_SCRATCH):
                doomed.append(name)
            continue
        base_offset, suffix, stage = parsed
        if stage in (DELETED, CLEANED):
            doomed.append(name)
            if stage == CLEANED:
                cleaned.append(base_offset)
        elif stage == SWAP:
            swaps.setdefault(base_offset, set()).add(suffix)
        elif suffix in SEGMENT_SUFFIXES:
            files.segments.setdefault(base_offset, set()).add(suffix)
        elif (offset := snapshot_offset(name)) is not None:
            files.snapshots.append(offset)
    return files, swaps, cleaned, doomed


def _finish_swaps(
    storage: Storage,
    directory: Path,
    files: PartitionFiles,
    swaps: dict[int, set[str]],
    first_cleaned: int | None,
) -> None:
    filesystem = storage.filesystem
    for base_offset in sorted(swaps):
        suffixes = swaps[base_offset]
        unprepared = first_cleaned is not None and base_offset >= first_cleaned
        files.changed = True
        if unprepared:
            for suffix in suffixes:
                filesystem.remove(directory / segment_file_name(base_offset, suffix, SWAP))
            continue
        if LOG in suffixes:
            end = _end_offset(storage, directory / segment_file_name(base_offset, LOG, SWAP))
            for covered in [base for base in files.segments if base_offset < base < end]:
                for suffix in files.segments.pop(covered):
                    filesystem.remove(directory / segment_file_name(covered, suffix))
            # They must not come back once the `.swap` that covers them is gone.
            filesystem.sync_directory(directory)
        # A file that is no longer `.swap` was put in its place before the crash.
        for suffix in sorted(suffixes, key=SEGMENT_SUFFIXES.index):
            filesystem.replace(
                directory / segment_file_name(base_offset, suffix, SWAP),
                directory / segment_file_name(base_offset, suffix),
            )
        files.segments.setdefault(base_offset, set()).update(suffixes)


def _end_offset(storage: Storage, path: Path) -> int:
    end = 0
    size = storage.filesystem.size(path)
    for head in walk_heads(storage.files.get(path), 0, size):
        end = head.next_offset
    storage.files.forget(path)
    return end
