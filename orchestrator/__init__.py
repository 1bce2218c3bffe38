"""What is planned, recorded, certified and shown."""
