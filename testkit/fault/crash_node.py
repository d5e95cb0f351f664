"""Files and directories that know which of their changes are durable."""

from collections.abc import Callable, Mapping
from enum import Enum, auto
from random import Random
from typing import TypeAlias

SECTOR_BYTES = 512

# A write (position, bytes), or a truncation (size, None).
Change: TypeAlias = tuple[int, bytes | None]


class Loss(Enum):
    """What a crash does to the unsynced bytes of a file."""

    NOTHING = auto()
    EVERYTHING = auto()
    TORN = auto()
    SECTORS = auto()


class Inode:
    """`data` is what readers see, `durable` what a crash cannot take, `pending` leads from one to
    the other.
    """

    __slots__ = ("data", "durable", "pending")

    def __init__(self) -> None:
        self.data = bytearray()
        self.durable = bytearray()
        self.pending: list[Change] = []

    def change(self, change: Change) -> None:
        _apply(self.data, change)
        self.pending.append(change)

    def sync(self) -> None:
        for change in self.pending:
            _apply(self.durable, change)
        self.pending.clear()

    def crash(self, rng: Random, loss: Loss) -> None:
        image = bytearray(self.durable)
        for change in _SURVIVORS[loss](self.pending, rng):
            _apply(image, change)
        longest = len(self.data)
        if loss in (Loss.TORN, Loss.SECTORS) and longest > len(image) and rng.random() < 0.3:
            image.extend(bytes(rng.randint(1, longest - len(image))))
        self.durable = image
        self.data = bytearray(image)
        self.pending = []

    def fork(self, memo: dict[int, "Inode"]) -> "Inode":
        copy = memo.get(id(self))
        if copy is None:
            copy = memo[id(self)] = Inode()
            copy.data = bytearray(self.data)
            copy.durable = bytearray(self.durable)
            copy.pending = list(self.pending)
        return copy


def _apply(content: bytearray, change: Change) -> None:
    position, data = change
    if data is None:
        del content[position:]
        data = b""
    if position > len(content):
        content.extend(bytes(position - len(content)))
    content[position : position + len(data)] = data


def _torn(pending: list[Change], rng: Random) -> list[Change]:
    kept = rng.randint(0, len(pending))
    survivors = pending[:kept]
    if kept < len(pending):
        position, data = pending[kept]
        if data is not None:
            survivors.append((position, data[: rng.randint(0, len(data))]))
    return survivors


def _sectors(pending: list[Change], rng: Random) -> list[Change]:
    chance = rng.choice((0.1, 0.5, 0.9))
    survivors: list[Change] = []
    for position, data in pending:
        if data is None:
            if rng.random() < chance:
                survivors.append((position, None))
            continue
        start = 0
        while start < len(data):
            end = min(len(data), start + SECTOR_BYTES - (position + start) % SECTOR_BYTES)
            if rng.random() < chance:
                survivors.append((position + start, data[start:end]))
            start = end
    return survivors


_SURVIVORS: Mapping[Loss, Callable[[list[Change], Random], list[Change]]] = {
    Loss.NOTHING: lambda pending, _: pending,
    Loss.EVERYTHING: lambda _, __: [],
    Loss.TORN: _torn,
    Loss.SECTORS: _sectors,
}


class Directory:
    """Names, with the same three views as an `Inode`."""

    __slots__ = ("durable", "names", "pending")

    def __init__(self) -> None:
        self.names: dict[str, Node] = {}
        self.durable: dict[str, Node] = {}
        self.pending: list[NameChange] = []

    def change(self, change: "NameChange") -> None:
        _apply_name(self.names, change)
        self.pending.append(change)

    def sync(self) -> None:
        for change in self.pending:
            _apply_name(self.durable, change)
        self.pending.clear()

    def crash(self, rng: Random, *, chaos: bool) -> None:
        if chaos:
            survivors = [change for change in self.pending if rng.random() < 0.5]
        else:
            survivors = self.pending[: rng.randint(0, len(self.pending))]
        for change in survivors:
            _apply_name(self.durable, change)
        self.names = dict(self.durable)
        self.pending = []

    def fork(self, memo: dict[int, Inode], seen: dict[int, "Directory"]) -> "Directory":
        copy = seen.get(id(self))
        if copy is None:
            copy = seen[id(self)] = Directory()

            def twin(node: "Node | None") -> "Node | None":
                if isinstance(node, Directory):
                    return node.fork(memo, seen)
                return node and node.fork(memo)

            copy.names = {name: _present(twin(node)) for name, node in self.names.items()}
            copy.durable = {name: _present(twin(node)) for name, node in self.durable.items()}
            copy.pending = [(name, twin(node), source) for name, node, source in self.pending]
        return copy


Node: TypeAlias = Inode | Directory
# (name, what it leads to or None when it was removed, the name it was renamed from or None)
NameChange: TypeAlias = tuple[str, Node | None, str | None]


def _present(node: Node | None) -> Node:
    assert node is not None
    return node


def _apply_name(names: dict[str, Node], change: NameChange) -> None:
    name, node, source = change
    if source is not None:
        names.pop(source, None)
    if node is None:
        names.pop(name, None)
    else:
        names[name] = node
