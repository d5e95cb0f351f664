"""How far consumer groups are behind, and whether that is a problem, without thresholds."""
