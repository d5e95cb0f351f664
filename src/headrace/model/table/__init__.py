"""Tables that topics land in, as users name and declare them: pure, for brokers and programs."""
