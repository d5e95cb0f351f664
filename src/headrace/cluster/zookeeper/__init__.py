"""The cluster store in a ZooKeeper ensemble: nodes, watches, login, ACLs and TLS."""
