"""Changes to the topics, configurations and replicas of a cluster."""
