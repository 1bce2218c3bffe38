"""What docker-compose.yml needs beside itself: secrets in files, and settings that name images by Id."""
