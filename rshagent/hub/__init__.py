"""The hub: one process in the launcher pod that holds the token and all exec streams.

`server` accepts clients, `client` speaks with one of them, `workers` knows which pods may be reached, `metrics` counts,
`cli` puts them together. What a launch is, and when it ends, is `rshagent.session.launch`'s matter.
"""
