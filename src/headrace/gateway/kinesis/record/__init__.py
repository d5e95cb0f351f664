"""Records into partitions and out of them."""
