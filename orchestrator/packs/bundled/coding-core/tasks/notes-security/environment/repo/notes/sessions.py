"""The session cookie."""

import base64
from http.cookies import CookieError, SimpleCookie

COOKIE = "session"


class Sessions:
    """Makes and reads the value of the session cookie."""

    def __init__(self, secret):
        self.secret = secret

    def issue(self, user):
        return base64.urlsafe_b64encode(user.encode()).decode()

    def user_of(self, header):
        """User named by a Cookie header, or None."""
        try:
            morsel = SimpleCookie(header).get(COOKIE)
            return base64.urlsafe_b64decode(morsel.value).decode() if morsel else None
        except (CookieError, ValueError):
            return None
