"""What an agent said and did, derived from the relay's transcript: tool calls, and an ATIF trajectory."""
