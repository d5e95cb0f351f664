"""A website's activity, from its pages to a live table."""
