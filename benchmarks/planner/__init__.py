"""Plans beside other estimators, on curves that had no part in their making."""
