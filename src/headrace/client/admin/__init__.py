"""Topics, configurations, groups and replicas, changed over the wire."""
