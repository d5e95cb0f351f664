"""The Java of this machine as a peer of the tests."""

from headrace.process.java import Java, JavaMissing
from headrace.process.java import find_java as find_any_java
from testkit.peer.peer import PeerMissing

# For runs of a few seconds: compile once and cheaply, collect with one thread, share the cores.
SHORT_RUN = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData")

__all__ = ["SHORT_RUN", "Java", "find_java"]


def find_java() -> Java:
    """Return `$JAVA_HOME`'s Java, or else the one on the path.

    Raises:
        PeerMissing: when there is none, or it is older than Java 17.
    """
    try:
        return find_any_java()
    except JavaMissing as missing:
        raise PeerMissing(str(missing)) from missing
