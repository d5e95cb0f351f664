"""`headrace registry` in a process of its own: started, stopped, and killed."""

from testkit.process.gateway_process import GatewayProcess


class RegistryProcess(GatewayProcess):
    """A registry on loopback and a free port.

    Example:
        with RegistryProcess(tmp_path, broker.address) as registry:
            call(registry.url, "GET", "/subjects")
    """

    NAME = "registry"
    COMMAND = "registry"
