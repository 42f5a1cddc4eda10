"""What several packages need: the event loop, HTTP and metrics, pods and what their state means, text, durations."""
