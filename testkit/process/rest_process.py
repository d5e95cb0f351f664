"""`headrace rest` in a process of its own: started, stopped, and killed."""

from testkit.process.gateway_process import GatewayProcess


class RestProcess(GatewayProcess):
    """A proxy on loopback and a free port.

    Example:
        with RestProcess(tmp_path, broker.address) as proxy:
            RestClient(proxy.url)
    """

    NAME = "REST proxy"
    COMMAND = "rest"
