"""A scripted provider that speaks the providers' wire formats: rehearse a screening without a key."""
