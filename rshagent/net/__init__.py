"""The event loop, descriptors, TLS connections and HTTP, and which API server they lead to."""
