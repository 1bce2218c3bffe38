"""What happens inside one attempt."""
