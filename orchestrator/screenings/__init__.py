"""One screening from a pack, an agent and conditions to certificates and a card: ties the houses together."""
