"""Topologies in Storm's words: spouts, bolts, groupings.

Example:
    from headrace.flow.storm.topology import Topology
"""
