"""A fetch on its way: a consumer's, one of a session, a follower's."""
