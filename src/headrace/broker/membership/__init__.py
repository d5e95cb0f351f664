"""A broker's place in the cluster: registration, metadata, in-sync replicas, the controller."""
