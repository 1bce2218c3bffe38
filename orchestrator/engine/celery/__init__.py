"""The engine of many hosts: Celery and Redis carry wake-up messages, the database owns all state."""
