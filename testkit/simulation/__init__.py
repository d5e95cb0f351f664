"""Models that stand in for slow or random parts: a virtual cluster, a store in memory."""
