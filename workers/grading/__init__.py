"""The verdict: tests run after the agent's death, in a container that it never touched."""
