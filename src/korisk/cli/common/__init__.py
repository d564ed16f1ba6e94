"""What commands share: how they are declared, their options, what they print, the user's code."""
