"""`headrace kinesis`: the gateway, and what a person asks of it."""
