"""The Java of this machine as a peer of the tests."""

from headrace.process.java import Java, JavaMissing
from headrace.process.java import find_java as find_any_java
from testkit.peer.peer import PeerMissing

# For runs of a few seconds: compile once and cheaply, collect with one thread, share the cores, and
# trust the classes of the jars: to verify them takes a sixth of the start.
SHORT_RUN = (
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-XX:-UsePerfData",
    "-XX:+UnlockDiagnosticVMOptions",
    "-XX:-BytecodeVerificationRemote",
)
SHORT_RUNS = {"JDK_JAVA_OPTIONS": " ".join(SHORT_RUN)}
"""The same for every Java that a command of the product starts, by its environment."""

__all__ = ["SHORT_RUN", "SHORT_RUNS", "Java", "find_java"]


def find_java() -> Java:
    """Return `$JAVA_HOME`'s Java, or else the one on the path.

    Raises:
        PeerMissing: when there is none, or it is older than Java 17.
    """
    try:
        return find_any_java()
    except JavaMissing as missing:
        raise PeerMissing(str(missing)) from missing
