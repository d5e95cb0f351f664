"""Users of gateways: from a file, each with rights to names that begin with a prefix."""
