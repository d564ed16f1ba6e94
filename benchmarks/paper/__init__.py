"""The paper's study, claims and problems, and the engines that run them."""
