"""Processes that Headrace starts: Java, ZooKeeper, and children that end with their parent."""
