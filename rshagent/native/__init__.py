"""The C programs of users' containers, how they are compiled, and the protocol that they speak."""
