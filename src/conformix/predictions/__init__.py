"""What is predicted: sets of labels, and intervals of responses."""
