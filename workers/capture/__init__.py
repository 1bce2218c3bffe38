"""What an agent left behind: collected after its death, filtered, capped, hashed as captured."""
