"""The hub: one process in the launcher pod that holds the token and all exec streams.

`server` accepts clients, `connection` is the hub's side of one of them, `workers` knows which pods may be reached,
`metrics` counts, `cli` puts them together. What a session is, and when it ends, is in `rshagent.session`.
"""
