"""HTTP for all gateways: connections with limits, HTTP/2, budgets of bytes and of requests."""
