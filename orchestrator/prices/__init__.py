"""Dated list prices in integer nano-USD, and what a call cost by them."""
