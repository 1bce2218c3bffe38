"""The providers' wire formats, pure: what a request asks for and what an answer used."""
