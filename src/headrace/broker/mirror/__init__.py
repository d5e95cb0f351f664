"""Mirror topics: copied from another cluster by the brokers that lead them (decision 0040)."""
