"""The wait for the workers' sshds, by their names and banners: it needs no rights in the API."""
