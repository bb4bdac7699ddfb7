"""What people instantiate: averages of scores, around outputs, classifiers, folds and streams."""
