//! Required and optional providers, with real processes: no answer, no call; and nothing of a provider stays alive.
