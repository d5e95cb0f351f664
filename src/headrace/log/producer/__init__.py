"""What a log knows of its idempotent and transactional producers, and how that is stored."""
