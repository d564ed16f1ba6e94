"""What a study is: its file, its points, and the problems that they name."""
