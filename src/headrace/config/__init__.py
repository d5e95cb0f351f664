"""Configuration files as users write them."""
