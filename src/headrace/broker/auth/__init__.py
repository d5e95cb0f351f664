"""Who a client is (SASL) and what it may do (ACLs). Everything in here is pure."""
