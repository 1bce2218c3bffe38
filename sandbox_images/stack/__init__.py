"""The images of docker-compose.yml, and Compose itself where the distribution has none."""
