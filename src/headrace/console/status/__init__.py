"""What the console polls: the cluster, its audit topic, and the flows and agents around it."""
