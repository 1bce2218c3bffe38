"""Copies of a ledger with the log beside it, bringing them back, and moving a ledger to another database."""
