"""The keys under which Spark keeps the states of slots.

Spark assigns a key to a partition by its hash. The hashes of small integers are uneven: with two
partitions, slots 0 and 1 share one. So each slot gets a key whose hash falls into partition
`slot % partitions`.

Rule 1: a key depends on the slot and on the number of partitions, and on nothing else. So a plan
        that grows at its end keeps the keys, and with them the states, of its first slots.
Rule 2: the keys are part of a checkpoint; `execution.checkpoint_keys` keeps them there.
"""

from dataclasses import dataclass
from functools import cached_property

_MASK = 0xFFFFFFFF
# Of Murmur3 for 32 bits, and the seed that Spark hashes keys with.
_FIRST, _SECOND, _SUM = 0xCC9E2D51, 0x1B873593, 0xE6546B64
_THIRD, _FOURTH = 0x85EBCA6B, 0xC2B2AE35
_SEED, _INT_BYTES = 42, 4


@dataclass(frozen=True)
class SlotKeys:
    """The key of each slot. It pickles: workers receive it.

    Attributes:
        keys: by slot, each another number; None: a slot's key is its own number.
    """

    keys: tuple[int, ...] | None = None

    @classmethod
    def spread(cls, slots: int, partitions: int) -> "SlotKeys":
        """Return keys that give every partition its share of the slots."""
        of_partition: list[list[int]] = [[] for _ in range(partitions)]
        keys: list[int] = []
        candidate = 0
        for slot in range(slots):
            found = of_partition[slot % partitions]
            while not found:
                of_partition[spark_partition_of(candidate, partitions)].append(candidate)
                candidate += 1
            keys.append(found.pop(0))
        return cls(tuple(keys))

    def slot(self, key: int) -> int:
        """Return the slot of a key. Negative numbers are records on their way, and stay.

        A key that no slot has is that of a slot of an earlier plan, whose timers Spark still has.
        It becomes a number beyond all slots.
        """
        if key < 0 or self.keys is None:
            return key
        return self._slots.get(key, len(self.keys))

    @cached_property
    def _slots(self) -> dict[int, int]:
        return {key: slot for slot, key in enumerate(self.keys or ())}


KEYS_ARE_SLOTS = SlotKeys()
"""Each slot's key is its own number, as in checkpoints of earlier versions."""


def spark_partition_of(key: int, partitions: int) -> int:
    """Return the partition of an integer's rows in Spark: `pmod(hash(key), partitions)`."""
    mixed = _rotated(key * _FIRST & _MASK, 15) * _SECOND & _MASK
    mixed = (_rotated(_SEED ^ mixed, 13) * 5 + _SUM & _MASK) ^ _INT_BYTES
    mixed = (mixed ^ mixed >> 16) * _THIRD & _MASK
    mixed = (mixed ^ mixed >> 13) * _FOURTH & _MASK
    mixed ^= mixed >> 16
    signed = mixed - (1 << 32) if mixed >> 31 else mixed
    return signed % partitions


def _rotated(number: int, bits: int) -> int:
    return (number << bits | number >> 32 - bits) & _MASK
