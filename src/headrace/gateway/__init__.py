"""Other services' APIs, served from topics."""
