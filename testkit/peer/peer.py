"""Peers: programs from elsewhere that the tests talk to (Java, Apache Kafka, kcat).

A developer without a peer sees its tests skipped, with the reason. In CI (`CI=true`) the same lack
is a failure, so that a set-up step that quietly stopped working cannot turn the tests off.
"""

import os
import shutil
from pathlib import Path
from typing import NoReturn

from headrace.model.error import HeadraceError


class PeerMissing(HeadraceError):
    """A peer is not on this machine; the message says how to get it."""


def require_peer(reason: str) -> NoReturn:
    """End the running test because a peer is missing: skipped here, failed in CI.

    Args:
        reason: one sentence that says what is missing and how to get it.

    Example:
        if shutil.which("kcat") is None:
            require_peer("kcat is not installed; on Debian: apt-get install kcat")
    """
    import pytest  # only a test calls this, and only the dev extra brings pytest

    if os.environ.get("CI", "").lower() in ("true", "1"):
        pytest.fail(f"CI must have every peer: {reason}", pytrace=False)
    pytest.skip(reason)


def find_program(name: str, *, package: str) -> Path:
    """Return the path of an installed program.

    Raises:
        PeerMissing: naming the Debian package that brings it.
    """
    found = shutil.which(name)
    if found is None:
        raise PeerMissing(f"{name} is not installed; on Debian: apt-get install {package}")
    return Path(found)
