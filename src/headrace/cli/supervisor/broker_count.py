"""`headrace up --brokers N|auto`: how many brokers one machine runs.

One broker keeps one core busy. `auto` is a broker per core, with one core left for clients where
there are more than two, and at most `MOST`: beyond that the other cores are worth more to the
clients on this machine.

What holds for `auto`:

1. no broker that has data is left out. A machine that lost cores runs as many brokers as before:
   partitions of a broker that is not started would have no leader.
2. the data of a single broker stays one broker's. A cluster in the same directory would not see it.
3. a machine that joined a cluster runs as many brokers as at its first start. The next ids may be
   those of another machine, which this one cannot know while that one is away.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from headrace.log.directory_lock import LOCK_NAME
from headrace.log.meta_properties import FILE_NAME as META_NAME
from headrace.model.error import ConfigError

AUTO: Final = "auto"
MOST: Final = 4
_SHOWN: Final = 8
_FOLDER = re.compile(r"broker-(0|[1-9][0-9]{0,9})")


@dataclass(frozen=True, slots=True)
class BrokerCount:
    """How many brokers to start, and for `auto` the reason, to be printed.

    Attributes:
        supervised: whether each has a folder of its own, below a supervisor: several, and one that
            was one of several before.
    """

    brokers: int
    reason: str | None = None
    supervised: bool = True


def broker_folder(home: Path, broker_id: int) -> Path:
    """Return where a broker of several has its data."""
    return home / f"broker-{broker_id}"


def brokers_for(cores: int) -> int:
    """Return how many brokers suit a machine.

    >>> [brokers_for(cores) for cores in (1, 2, 3, 4, 5, 64)]
    [1, 2, 2, 3, 4, 4]
    """
    return max(min(cores, 2), min(cores - 1, MOST))


def choose_broker_count(
    text: str, home: Path, *, first_id: int, cores: int, joined: bool = False
) -> BrokerCount:
    """Return the number of brokers for the value of `--brokers`.

    Args:
        home: the data directory.
        first_id: the id of the first broker; the others count up from it.
        joined: whether other machines have brokers of the same cluster.

    Raises:
        ConfigError: the value is neither `auto` nor a number from 1 on, or `auto` cannot say
            which brokers have data in this directory.
    """
    if text != AUTO:
        if not (text.isascii() and text.isdigit()) or int(text) < 1:
            raise ConfigError(f"--brokers {text}: write a number from 1 on, or {AUTO}")
        return BrokerCount(int(text), supervised=int(text) > 1)
    machine = f"{cores} core{'s' * (cores > 1)}"
    if (home / LOCK_NAME).exists():
        _refuse_both_kinds(home)
        return BrokerCount(
            1,
            f"1 broker, because {home} has the data of a single one ({machine}): choose another "
            "--data for several",
            supervised=False,
        )
    suited, present = brokers_for(cores), _present(home, first_id)
    if present > suited or (joined and present == suited):
        return BrokerCount(
            present, f"{_counted(present)}, as {home} has data of so many ({machine})"
        )
    if joined and present > 0:
        return BrokerCount(
            present,
            f"{_counted(present)}, as {home} has data of so many. {machine} suit {suited}, but the "
            f"ids from {first_id + present} on may be another machine's: write --brokers {suited} "
            "if they are free",
        )
    reason = f"{_counted(suited)} for {machine}"
    if 0 < present < suited:
        reason += f", {suited - present} of them new: headrace cluster rebalance gives them a share"
    return BrokerCount(suited, reason, supervised=suited > 1 or present > 0)


def _counted(brokers: int) -> str:
    return f"{brokers} broker{'s' * (brokers > 1)}"


def _refuse_both_kinds(home: Path) -> None:
    """Raise ConfigError if several brokers have data beside that of a single one (rules 1, 2)."""
    for number in _present_ids(home):
        used = broker_folder(home, number) / META_NAME
        if used.exists():
            raise ConfigError(
                f"{home} has the data of a single broker ({home / LOCK_NAME}) and of one of "
                f"several ({used}), and {AUTO} starts only one kind: move one of them to another "
                "directory, or write --brokers 1, or the number of the several"
            )


def _present(home: Path, first_id: int) -> int:
    """Return how many brokers have data.

    Raises:
        ConfigError: their ids do not count up from the first one without a hole. One folder of a
            high id would otherwise start hundreds of brokers, and one of a low id would be left
            out.
    """
    ids = _present_ids(home)
    if ids and ids != list(range(first_id, first_id + len(ids))):
        shown = ", ".join(map(str, ids[:_SHOWN])) + ", ..." * (len(ids) > _SHOWN)
        raise ConfigError(
            f"{home} has folders of the brokers {shown}, but {AUTO} counts from broker {first_id} "
            "on without holes: write a number instead (--brokers 3), or move folders away that "
            "belong to other machines"
        )
    return len(ids)


def _present_ids(home: Path) -> list[int]:
    if not home.is_dir():
        return []
    found = (_FOLDER.fullmatch(each.name) for each in home.iterdir() if each.is_dir())
    return sorted(int(match[1]) for match in found if match is not None)
