"""Memory and time of studies before they run: counted, and timed by what machines were measured."""
