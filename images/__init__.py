"""The images: Dockerfiles, and the script that builds them."""
