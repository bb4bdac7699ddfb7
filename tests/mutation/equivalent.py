"""Mutants that change nothing a caller can see, each with its proof."""

from __future__ import annotations

# What several of them share.
NEGATIVE = (
    "Any negative number of rows is refused two lines below, so which one it is says nothing."
)
REMEMBERED = "The function has no state: what it remembers, or how much of it, changes no answer."
LONGER = (
    "Marks are read at the given rows alone, which the array holds either way: one that is longer, "
    "with False at the end, has the same answers."
)
ALL_DRAWN = (
    "Where there are no more rows than fit, all are drawn, and sorted they are as they were."
)
ONE_BY_ONE = "Thresholds are of one weight vector: how many a thread takes is speed."
QUICKER = (
    "Labels that may reach a threshold are compared with it either way: from how many scores on "
    "the others are left out first is speed."
)
FEWER_BY_FLOATS = (
    "Fewer ranks, or none, are had from a product of floats; the others from fractions, which give "
    "the same: the product is taken only where it has the floor of the exact one."
)
PIECES = "The size of a piece of work: each row is worked on by itself, whatever comes with it."
PROTOCOL = "A protocol for type checkers: nobody derives from it or calls its members."

# By the name of the mutant; the comment holds the changed line.
PROOFS: dict[str, str] = {
    # conformal.py, in _snapped: abs(simple - exact) < SNAP_DISTANCE
    "17bc801de7a4ecf1": (
        "The two are never equal: `exact` has a power of two below the line and 10**-12 has 5**12, "
        "so a fraction at that distance of it has 5**12 too, more than SNAP_DENOMINATOR."
    ),
    # conformal.py, in _snapped: @lru_cache(maxsize=1025), 1023, and no decorator
    "9d3f2d85fb0f6619": REMEMBERED,
    "43f22adf31e553b8": REMEMBERED,
    "f34f7e85d5bfbd9c": REMEMBERED,
    # conformal.py, in _row_count: rows = ~1, rows = -2
    "6d546999207852e9": NEGATIVE,
    "b2a83a6c23892b17": NEGATIVE,
    # conformal.py, for FEW_ROWS: 2-20, 2%20, 2/20, 2*20, 2+20, 2//20, 2>>20, 2&20, 2|20, 2^20,
    # 1**20, 2**19
    **dict.fromkeys(
        (
            "de2d45bddd9d584e",
            "30e1afcfd0283592",
            "72bdf74bc9453daa",
            "d9003e62e3bd11bd",
            "fcd4e94d1829b1db",
            "6951f1e409080a63",
            "7e491b36fe565fd6",
            "1856c098cb8eb939",
            "a210ca04633d0835",
            "1947fc3d9cdad1b9",
            "ff3694d87eda642c",
            "3cd606acd7cc2986",
        ),
        FEWER_BY_FLOATS,
    ),
    # conformal.py, for CLEAR: 1.00001
    "179c3061e7b3c982": FEWER_BY_FLOATS,
    # conformal.py, for FEW_ROWS: 2**21, 2<<20
    **dict.fromkeys(
        ("5bdf14628e6f9421", "a980287122a01cff"),
        "The product of 2**21 rows is moved by 3e-6 at most, by the snap and by rounding, and is "
        "taken only 1e-5 from a whole number.",
    ),
    # conformal.py, in warn_if_trivial: aside: int = -1
    "7cf3d2a2a2522291": "There are fewer rows than needed there, and one less is fewer, too.",
    # conformal.py: if values.shape[1] <= 1:
    "82612a156f3c47a2": (
        "A table of p-values has at least one column (`check_matrix` refuses none)"
        ", so `<= 1` is `== 1`."
    ),
    # splits.py, in Roles.separate: len(_outside(...)) >= len(self.tune)
    "89f6e3f6238636be": "Rows outside others are some of the rows, so never more than they are.",
    # splits.py, in _outside: initial=+1, not 1, 1, -0; and + 2 at the end
    "dbf54191fabe69f3": LONGER,
    "3b0c3bcdf0cd3ace": LONGER,
    "a4362e3658cc0cb3": LONGER,
    "f5ccd6d9cfbaf964": LONGER,
    "6f26ec7c92abff26": LONGER,
    # guarantees/verdict.py, in covered_law: while len(laws) != 1:
    "341a09621494ff89": "There is one law at least (`or [np.ones(1)]`), and one goes at a time.",
    # guarantees/verdict.py, in beta_binomial: if union := n_weights != 1:
    "fadebfc05b834b59": "A number of weightings is 1 or more: without one no law is known.",
    # fit/verdict.py, in LabelledRows.pooled: if len(y) != most, >= most, is not most:
    "7a768b386b052b3e": ALL_DRAWN,
    "36dc69eb14ffd718": ALL_DRAWN,
    "8f2dce6a64dd2f81": ALL_DRAWN,
    # calibration/merge.py, in merge_sets: if rule <= "random"
    "0217e79838a464eb": 'The rule is "random" or "uniform" there, of which the first comes first.',
    # calibration/merge.py, in merge_pvalues: return stacked[-1].copy()
    "023e3017adaecc86": "There is one table there: the first is the last.",
    # calibration/sums.py, in _running: width = math.isqrt(max(n - 1, 0)) + 2
    "0183820dfc5b9f27": (
        "How long the stretches are changes the order of additions of pairs, hence digits beyond "
        "the 30th; decisions that close are made in integers."
    ),
    # calibration/strata.py, in Stratified.promise: base.kind <= "approximate"
    "0711c6533f989813": "Of the four kinds of guarantee none comes before approximate.",
    # calibration/strata.py, in Stratified.scores_of: if stratum <= EVERY:
    "099efdd6d4cbf7a5": "EVERY is -2, and no stratum has a smaller number.",
    # fit/rule.py, in Rule._may_reach: maybe &= scores[..., j] != floors[j]
    "0aac42f435edd026": (
        "Labels that are let through besides are compared with the threshold itself, as all are "
        "that are let through."
    ),
    # fit/rule.py, in Rule._may_reach: for j in known[0:]:
    "0e34208dfa1da755": "The first column is compared with its floor twice, to the same end.",
    # fit/rule.py: FEW_SCORES = 2 % 13, 2 | 13
    "0d1bc9502f62149b": QUICKER,
    "17dc85e45e6c09cf": QUICKER,
    # fit/exact/split.py, in FullFitted._ask: row_blocks(len(scores), 2, ROWS_AT_ONCE)
    "0e5212e61f57d31b": "Rows are asked each by itself: the size of a block is memory alone.",
    # calibration/objective.py, in ClassObjective.counts: len(some) // (4 | self.threads)
    "0f4f1fb004298667": ONE_BY_ONE,
    # the same: len(some) * (4 * self.threads)
    "1490f9bc09ef3bf1": ONE_BY_ONE,
    # the same: len(some) // (5 * self.threads)
    "1900fb46acadb274": ONE_BY_ONE,
    # calibration/strata.py, in Stratified.law: stratum < part.n_strata - 1
    "10228825f03d1617": "No stratum has a number above the last.",
    # calibration/clusters.py, in weighted_kmeans: labels = np.full(len(points), -0)
    "102d757755b93f20": (
        "Starts differ and each is nearest to itself, so all points are nearest to the first only "
        "where it is alone; there is one cluster then, however many steps it takes."
    ),
    # fit/predictor.py, in _best_first: several = sizes > 0
    "060847fe65d5c9b6": "A set of one label is in order already: to sort it too changes nothing.",
    # guarantees/statement.py, in pac_guarantee: if n_weights <= 1
    "0e69a224114cb129": "A number of candidates is 1 or more: `pac_rank` refuses any other.",
    # splits.py, in Split: @property gone from name, guarantee and needs_test
    "6b7763ba5c695e29": PROTOCOL,
    "d144242d3c40aba3": PROTOCOL,
    "06de4d9d6796a54e": PROTOCOL,
    # calibration/cuts.py, in Calibration: @property gone from name
    "11567ccc2abafa8a": PROTOCOL,
    # fit/rule.py, in Fitted: @property gone from calibration
    "077adbe1fbb087cd": PROTOCOL,
    # calibration/strata.py: names.dtype.kind is 'U'
    "16b8822ecf7298ba": (
        "A kind is one letter, and texts of one letter are single objects in CPython."
    ),
    # calibration/clusters.py, in weighted_kmeans: reshape(~1)
    "177a457381480696": "NumPy takes any one negative length for the one that it is to find.",
    # fit/exact/split.py: ROWS_AT_ONCE = 17
    "20969aac4dddb921": PIECES,
    # scores/blend.py: PIECE_ENTRIES = 2<<17
    "005b4d7412e664b5": PIECES,
    # fit/rule.py: FEW_SCORES = 2//13
    "1c3fe7514e993c27": QUICKER,
    # calibration/strata.py: MANY = 2**52
    "0c610c7c56d99f67": "No memory holds the labels of 2**52 rows.",
    # fit/exact/by_class.py, in Cell: @dataclass(frozen=True, eq=True)
    "1bf4d885ae99582e": "Cells are read and never compared or hashed.",
    # fit/predictor.py, in Predictor._sorted: zip(..., strict=False)
    "1a3048fc02b1175f": "`run_blocks` answers once for every block, so none is left over.",
}
