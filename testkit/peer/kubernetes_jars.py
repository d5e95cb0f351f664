"""An API server of Kubernetes that only keeps what it is sent, by the makers of Spark's client."""

from testkit.peer.jar_set import JarSet, Selection
from testkit.peer.maven import cache_folder

# That of the client among the jars of the installed Spark (tests/driver/test_kubernetes.py).
KUBERNETES_CLIENT_VERSION = "7.6.1"

KUBERNETES_JARS = JarSet(
    name=f"the mock of Kubernetes' API {KUBERNETES_CLIENT_VERSION}",
    folder=lambda: cache_folder() / f"kubernetes-{KUBERNETES_CLIENT_VERSION}",
    selections=(Selection((f"io.fabric8:kubernetes-server-mock:{KUBERNETES_CLIENT_VERSION}",)),),
    about_mb=40,
)
