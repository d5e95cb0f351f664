"""The cluster's own state: topics, brokers, configurations, and the store that keeps them."""
