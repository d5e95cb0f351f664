"""The main job in miniature: a website's activity, from its pages to a live table."""
