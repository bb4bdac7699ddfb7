"""One expert made of many scores, with coefficients that make the true labels most likely.

``z_y = c_1 s_1(x, y) + ... + c_p s_p(x, y)``, and the blend's probabilities are the softmax of z
over the labels of the row. The coefficients are not negative and maximise the likelihood of the
tuning labels, shrunk towards the plain mean of the models' log-probabilities. A set size at
alpha = .01 rests on the few rows at the threshold; a likelihood is a mean over all rows, and finds
good coefficients from a hundred of them. ``scores="auto"`` is this; see docs/frontier.md.
"""

from conformix.scores.blend.dictionary import DICTIONARY, plan_rows
from conformix.scores.blend.learn import fit_blend
from conformix.scores.blend.model import Blend

__all__ = ["DICTIONARY", "Blend", "fit_blend", "plan_rows"]
