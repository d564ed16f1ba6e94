"""Learning curves predicted before training, from the operator, the images and the noise."""
