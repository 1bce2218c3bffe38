"""Password hashes."""

import hashlib


def hash_password(password):
    return hashlib.sha1(password.encode()).hexdigest()


def check_password(password, stored):
    return hash_password(password) == stored
