"""What clients hold in their hands: ARNs, shard ids, sequence numbers, iterators and tokens."""
