"""Cross-conformal sets (CV+, jackknife+): every row trains and every row calibrates.

`CrossAverage` takes the outputs of the fold models; `conformix.CrossConformalClassifier` trains
scikit-learn classifiers as well.
"""

from conformix.estimators.cross.folds import CrossAverage, Fold, cross_coverage

__all__ = ["CrossAverage", "Fold", "cross_coverage"]
