"""How a fetch is read, waited for and answered: consumers, sessions, followers."""
