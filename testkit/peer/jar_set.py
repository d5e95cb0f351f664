"""The jars of one peer: what they are called, where they lie, and how they get there."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from testkit.peer.maven import Jars, fetch_jars, find_jars
from testkit.peer.peer import PeerMissing


@dataclass(frozen=True, slots=True)
class Selection:
    """Maven coordinates, with or without what those jars need themselves."""

    coordinates: tuple[str, ...]
    transitive: bool = True


@dataclass(frozen=True, slots=True)
class JarSet:
    """Found by tests, fetched by the set-up only.

    Attributes:
        name: the peer's name, for people.
        folder: returns the folder; called late, as it depends on the environment.
        selections: tried one after the other until Maven has all jars of one of them.
        about_mb: roughly how much is downloaded, for a progress bar.
    """

    name: str
    folder: Callable[[], Path]
    selections: tuple[Selection, ...]
    about_mb: int

    def find(self) -> Jars:
        """Return the jars that the set-up fetched. Never downloads.

        Raises:
            PeerMissing: when the set-up did not run.
        """
        jars = find_jars(self.folder())
        if jars is None:
            raise PeerMissing(f"{self.name} is not fetched: run tools/setup-peers")
        return jars

    def fetch(self) -> Jars:
        """Download the jars if they are not there. Takes up to two minutes.

        Raises:
            PeerMissing: when Maven is missing or has none of the selections.
        """
        *first_choices, last_choice = self.selections
        for selection in first_choices:
            try:
                return self._fetch(selection)
            except PeerMissing:
                continue
        return self._fetch(last_choice)

    def _fetch(self, selection: Selection) -> Jars:
        return fetch_jars(selection.coordinates, self.folder(), transitive=selection.transitive)
