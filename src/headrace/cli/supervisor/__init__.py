"""What `headrace up` runs in processes of their own: several brokers, and services beside them."""
