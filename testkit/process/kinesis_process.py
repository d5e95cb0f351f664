"""`headrace kinesis` in a process of its own: started, stopped, and killed."""

from testkit.process.gateway_process import GatewayProcess


class KinesisProcess(GatewayProcess):
    """A gateway on loopback and a free port.

    Example:
        with KinesisProcess(tmp_path, broker.address) as gateway:
            boto3.client("kinesis", endpoint_url=gateway.url)
    """

    NAME = "gateway"
    COMMAND = "kinesis"
