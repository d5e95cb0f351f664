"""A broker's settings, typed, and the listeners they name."""
