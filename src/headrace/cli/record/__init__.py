"""Records as text and in files, and offsets as users write them."""
