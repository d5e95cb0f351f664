"""The console: a page in the browser for any Kafka cluster, served by starlette."""
