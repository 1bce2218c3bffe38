"""What the sandboxes are made of: base images, task images, and the lock that pins them by Id."""
