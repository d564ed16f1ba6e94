"""The user's images: several file formats, one size and value scale, split by patient."""
