"""What a log knows of its idempotent and transactional producers, and how it is kept."""
