"""The wait for the workers' sshds, by DNS and their banners: it needs no access to the API server."""
