"""The cluster's state in ZooKeeper: its nodes, their watches, and who may touch them."""
