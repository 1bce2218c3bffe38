"""The database."""

import sqlite3

from notes.passwords import hash_password

SCHEMA = """
CREATE TABLE IF NOT EXISTS users (name TEXT PRIMARY KEY, password TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS notes (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    owner TEXT NOT NULL,
    title TEXT NOT NULL,
    text TEXT NOT NULL,
    attachment TEXT NOT NULL DEFAULT '',
    created TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
);
"""


class Store:
    """Users and notes in one sqlite file."""

    def __init__(self, path):
        self.connection = sqlite3.connect(path, check_same_thread=False)
        self.connection.row_factory = sqlite3.Row
        self.connection.executescript(SCHEMA)

    def add_user(self, name, password):
        with self.connection:
            self.connection.execute("INSERT INTO users (name, password) VALUES (?, ?)", (name, hash_password(password)))

    def password_of(self, name):
        row = self.connection.execute("SELECT password FROM users WHERE name = ?", (name,)).fetchone()
        return row["password"] if row else None

    def add_note(self, owner, title, text, attachment):
        with self.connection:
            cursor = self.connection.execute(
                "INSERT INTO notes (owner, title, text, attachment) VALUES (?, ?, ?, ?)", (owner, title, text, attachment)
            )
        return cursor.lastrowid

    def note(self, number):
        return self.connection.execute("SELECT * FROM notes WHERE id = ?", (number,)).fetchone()

    def delete_note(self, number):
        with self.connection:
            self.connection.execute(f"DELETE FROM notes WHERE id = {number}")

    def search(self, query="", sort="created"):
        """Notes that contain the query, in the given order."""
        direction = "ASC"
        if sort.startswith("-"):
            direction, sort = "DESC", sort[1:]
        return self.connection.execute(
            f"SELECT * FROM notes WHERE title LIKE '%{query}%' OR text LIKE '%{query}%' ORDER BY {sort} {direction}, id"
        ).fetchall()
