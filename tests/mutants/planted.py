"""Bugs to plant: each one line of the library, turned into a mistake that somebody has made.

``python -m mutants`` (``make mutants``) plants them one by one in a copy of the package and runs
the suite there; a bug that no test notices is a hole in the suite.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Bug:
    """One planted mistake.

    Parameters
    ----------
    name : str
        What went wrong, in words.
    file : str
        Below ``src/conformix``.
    right, wrong : str
        The text that is there exactly once, and what replaces it.
    """

    name: str
    file: str
    right: str
    wrong: str


BUGS = [
    # The rank and the threshold.
    Bug("rank off by one", "conformal.py",
        "return rows + 1 - math.floor(", "return rows - math.floor("),
    Bug("rank without the row to come", "conformal.py",
        "rows + 1 - math.floor((rows + 1) * simple_fraction(alpha))",
        "rows - math.floor(rows * simple_fraction(alpha))"),
    Bug("rank in floats", "conformal.py",
        "rows + 1 - math.floor((rows + 1) * simple_fraction(alpha))",
        "math.ceil((rows + 1) * (1 - float(simple_fraction(alpha))))"),
    Bug("k-th smallest, as the paper says", "conformal.py",
        "np.partition(values, n - k)[n - k]", "np.partition(values, k - 1)[k - 1]"),
    Bug("finite threshold where the rows are too few", "conformal.py",
        "        return -math.inf", "        return float(values.min())"),
    Bug("p-value that does not count ties", "conformal.py",
        'return places(calibration, scores, "right") + 1',
        'return places(calibration, scores, "left") + 1'),
    Bug("p-value without the row itself", "conformal.py",
        'return places(calibration, scores, "right") + 1',
        'return places(calibration, scores, "right")'),
    Bug("smoothed p-value without the row itself", "conformal.py",
        "tau * as_float64(up_to - below + 1)", "tau * as_float64(up_to - below)"),
    # Membership and roles.
    Bug("`>` for `>=`", "fitted.py",
        "return values >= cut  #", "return values > cut  #"),
    Bug("`>` for `>=` among labels that may be in", "fitted.py",
        "self.of_own(scores[places]) >= threshold", "self.of_own(scores[places]) > threshold"),
    Bug("labels left out at their last knot", "normalize.py",
        "floors[j] = knots[short - 1]", "floors[j] = knots[min(short, len(knots) - 1)]"),
    Bug("`>` for `>=` at several levels", "fitted.py",
        'np.searchsorted(np.array(thresholds), values, side="right")',
        'np.searchsorted(np.array(thresholds), values, side="left")'),
    Bug("calibration on the tuning rows", "pipeline.py",
        "cal = rows_in_place(scores, y, roles.calibrate), y[roles.calibrate]",
        "cal = rows_in_place(scores, y, roles.tune), y[roles.tune]"),
    Bug("tuning sees the calibration rows", "pipeline.py",
        "tune = _tuning_rows(scores, y, roles.tune, normalizer, columns)",
        "tune = _tuning_rows(scores, y, np.arange(len(y)), normalizer, columns)"),
    Bug("normaliser sees the calibration rows", "pipeline.py",
        "return TuningRows(own, labels, normalizer, columns, spare=own is not scores)",
        "every = lambda self, own, columns: normalizer.fit(scores, columns)\n"
        "    looks = type('Looks', (), {'fit': every})()\n"
        "    return TuningRows(own, labels, looks, columns, spare=own is not scores)"),
    Bug("shared scores normalised in place", "pipeline.py",
        "spare=own is not scores", "spare=True"),
    Bug("calibration rows that tuned", "splits.py",
        "return Roles(tune, tune, np.flatnonzero(~tuning[units]))",
        "return Roles(tune, tune, np.arange(n))"),
    Bug("groups torn apart", "splits.py",
        "units = np.arange(n) if groups is None else groups", "units = np.arange(n)"),
    Bug("DLCP counts sizes on the labelled rows", "splits.py",
        "return Roles(rows, np.arange(n, n + n_test), rows)", "return Roles(rows, rows, rows)"),
    Bug("DLCP+ forgets the test rows", "splits.py",
        "return Roles(rows, np.arange(n + n_test), rows)", "return Roles(rows, rows, rows)"),
    Bug("non-empty sets in prediction only", "fitted.py",
        "return not self.allow_empty or self.limits is not None",
        "return self.limits is not None"),
    Bug("only one of tied best labels lifted", "kernels/combine.py",
        "combined == combined.max(axis=1, keepdims=True)",
        "np.arange(combined.shape[1]) == combined.argmax(axis=1)[:, None]"),
    # The exact split.
    Bug("candidate left out of the selection", "kernels/selection.py",
        "at_high, at_low = counts[i, 0] + own_high, counts[i, 1] + own_low",
        "at_high, at_low = counts[i, 0], counts[i, 1]"),
    Bug("threshold not moved by the candidate", "kernels/selection.py",
        "                if s < low:\n", "                if True:\n"),
    Bug("`>` for `>=` in the exact split", "exact/fitted.py",
        "return own >= to_device(tables.cuts[:, 1], scores)[chosen]",
        "return own > to_device(tables.cuts[:, 1], scores)[chosen]"),
    Bug("tie rule turned round", "kernels/selection.py",
        "order[i] < order[chosen[r, y]]", "order[i] > order[chosen[r, y]]"),
    Bug("plausible weights pruned too far", "exact/tables.py",
        "<= at_low.min() + scores.shape[1]", "<= at_low.min()"),
    Bug("one weight vector for all candidates", "exact/fitted.py",
        "        chosen = self.choose(scores, tables)\n        own = combine(",
        "        chosen = self.choose(scores, tables)\n"
        "        chosen[:] = np.flatnonzero(tables.order == tables.best)[0]\n"
        "        own = combine("),
    Bug("the gap counted without its lower end", "kernels/selection.py",
        "return total + part.shape[0] - np.searchsorted(part, s)",
        'return total + part.shape[0] - np.searchsorted(part, s, side="right")'),
    # Conditional, weighted, online, cross.
    Bug("rank of all rows for every class", "calibration/strata.py",
        "k = np.array([rank(int(n), alpha) for n in sizes], dtype=np.int64)[inverse.ravel()]",
        "k = np.full(len(self.counts), rank(int(self.counts.mean()), alpha))"),
    Bug("weighted threshold without the row's own weight", "calibration/weighted.py",
        "(self._up_to[-1] + own)", "self._up_to[-1] + 0 * own"),
    Bug("strata laid down on the calibration rows", "pipeline.py",
        "own = roles.tune if separate else roles.calibrate\n"
        "    seen = tune.scores if separate else cal[0]\n"
        "    early = _on_scale(rule) if separate else rule",
        "own, seen, early = roles.calibrate, cal[0], rule"),
    Bug("one weight for all labels under label shift", "calibration/weighted.py",
        "return self.plan.by_class[None, :]", "return np.ones((1, len(self.plan.by_class)))"),
    Bug("weights apart from their scores", "calibration/weighted.py",
        "np.cumsum(self.weight[::-1])", "np.cumsum(np.sort(self.weight)[::-1])"),
    Bug("p-value over all rows for every class", "calibration/strata.py",
        "own, place = self.scores_of(stratum), np.ix_(rows, labels)",
        "own, place = self.values, np.ix_(rows, labels)"),
    Bug("unknown group taken for its neighbour", "calibration/strata.py",
        "return np.where(names[place] == data.strata, place, len(names))", "return place"),
    Bug("mean of p-values without the factor", "merge.py",
        '"mean": lambda p: 2 * p.mean(axis=0)', '"mean": lambda p: p.mean(axis=0)'),
    Bug("vote of half", "merge.py", "votes > level", "votes >= level"),
    Bug("stake of the present coin", "online/control.py",
        "self._wealth * self._sum / (self._steps + 1)", "self._wealth * self._sum / self._steps"),
    Bug("online window that keeps everything", "online/stream.py",
        "self._filled = min(self._steps, self.window)", "self._filled = self.window"),
    Bug("online step with the wrong sign", "online/control.py",
        "self.level += self.step(self._steps) * (self.alpha - error)",
        "self.level -= self.step(self._steps) * (self.alpha - error)"),
    Bug("CV+ without the row to come", "cross/folds.py",
        "level.numerator * (self.n_ + 1)", "level.numerator * (self.n_ + 9)"),
    # Scores.
    Bug("u drawn by place, not by row", "scores/uniforms.py",
        "return (_mix(total ^ seed)",
        "return (_mix(np.arange(len(total), dtype=np.uint64) ^ seed)"),
    Bug("u of smoothing is the u of the scores", "predictor.py",
        "key = self.key ^ 0x5DEECE66D", "key = self.key"),
    Bug("mass of tied labels by position", "scores/ranked.py",
        "        mass[rows] = np.take_along_axis(mass[rows], last, axis=1)\n", ""),
    Bug("mass of a tied true label by position", "scores/one_label.py",
        "np.take_along_axis(mass, self._ends[1], axis=1)",
        "np.take_along_axis(mass, self.places[:, None], axis=1)"),
    Bug("rank of tied labels by the last of them", "scores/ranked.py",
        "return self.n_classes - self._positions(self._ties[2])",
        "return self.n_classes - self._positions(self._ties[1])"),
    Bug("SAPS one rank too deep", "scores/saps.py",
        "(ranked.rank - 2 + u)", "(ranked.rank - 1 + u)"),
    Bug("RAPS penalty one rank late", "scores/raps.py",
        "(ranked.rank - self.k_reg).clip(0)", "(ranked.rank - self.k_reg - 1).clip(0)"),
    Bug("input overwritten by softmax", "scores/ranked.py",
        "        self._raw: FloatArray = numbers\n",
        "        self._raw: FloatArray = numbers\n        if kind == 'logits':\n"
        "            numbers -= numbers.max(axis=1, keepdims=True)\n"),
    # Search.
    Bug("combined in another order", "kernels/combine.py",
        "    for j in range(1, scores.shape[-1]):\n        total += np.multiply",
        "    for j in reversed(range(1, scores.shape[-1])):\n        total += np.multiply"),
    Bug("grid that loses an edge", "search/simplex.py",
        "repeats = left + 1", "repeats = np.maximum(left, 1)"),
    Bug("ties towards the corners", "search/simplex.py",
        "return np.lexsort((*weights.T[::-1], (weights**2).sum(axis=1)))",
        "return np.lexsort((*weights.T[::-1], -(weights**2).sum(axis=1)))"),
    Bug("`>` for `>=` in the search", "search/engine/lists.py",
        "inside += value[q] >= thresholds[i]", "inside += value[q] > thresholds[i]"),
    Bug("bounds too tight in the search", "search/engine/lists.py",
        "marks[i] = not (value[i] + radius[i] < floor or value[i] - radius[i] >= ceiling)",
        "marks[i] = not (value[i] + 0.9 * radius[i] < floor or value[i] - radius[i] >= ceiling)"),
    # The blend.
    Bug("blend that saw the calibration rows", "auto.py",
        "blend = fit_blend(tune, y[roles.tune], columns,",
        "blend = fit_blend(host_outputs(outputs), y, columns,"),
    Bug("split that draws other rows than the blend saw", "auto.py",
        'settings |= {"split": Drawn(own, roles),', 'settings |= {"split": own,'),
    Bug("second pass over batches whose rows differ", "stream/fit.py",
        "        if not np.array_equal(y, labels[first : first + own.n]):", "        if False:"),
    Bug("labels by number taken for places", "readers/batch.py",
        "return np.asarray(classes)[self.labels] if numbers else self.labels",
        "return self.labels"),
    Bug("blend drawn to zero, not to its prior", "blend/fit.py",
        "pull = 2 * self.ridge * (c - self.prior)", "pull = 2 * self.ridge * c"),
    Bug("calibration rows planned without the row to come", "blend/dictionary.py",
        "rest = math.ceil(Fraction(whole) / level) - 1",
        "rest = math.ceil(Fraction(whole) / level)"),
    # Files.
    Bug("columns in the order of the file, not of the classes", "readers/batch.py",
        "order = [own.index(str(name)) for name in classes]", "order = list(range(len(own)))"),
    Bug("models whose labels differ", "readers/batch.py",
        "            if not np.array_equal(first.labels, other.labels):", "            if False:"),
    Bug("npy header believed beyond its bytes", "readers/npy.py",
        "    if data != size - start:", "    if data < size - start:"),
    Bug("code in a pt file not looked for", "readers/pt.py",
        'opcode.name in ("GLOBAL", "INST") and argument not in ALLOWED',
        'opcode.name in ("GLOBAL", "INST") and argument is None'),
    Bug("archive without a bound", "readers/zips.py",
        "    limits.check_memory(path, unpacked)\n", ""),
    Bug("arrays of another model taken", "storage/files.py",
        '    if hashlib.sha256(content).hexdigest() != document.get("npz_sha256"):',
        "    if False:"),
    Bug("unknown fields of a model passed over", "storage/migrations.py",
        "    if unknown:\n        raise", "    if False:\n        raise"),
    Bug("infinite thresholds lost in a file", "storage/arrays.py",
        "return value if np.isfinite(value) else repr(value)",
        "return value if np.isfinite(value) else 0.0"),
    Bug("model whose numbers of classes differ", "storage/checks.py",
        '        _require(same, "its numbers of classes differ")\n', ""),
    Bug("half a file left behind", "atomic.py",
        "        Path(name).unlink(missing_ok=True)\n", ""),
    Bug("probabilities renormalised", "scores/ranked.py",
        "            return self._raw\n        return self._normalized(np.exp",
        "            return self._raw / self._raw.sum(axis=1, keepdims=True)\n"
        "        return self._normalized(np.exp"),
    Bug("drift of the wrong sign", "drift.py",
        'if found.statistic_sign > 0 else "better"', 'if found.statistic_sign < 0 else "better"'),
    Bug("unlisted labels above listed ones", "topk.py",
        "dense[:] = np.minimum(missing, smallest)[:, None]", "dense[:] = missing[:, None]"),
    # Guarantees.
    Bug("PAC without the union over weights", "guarantees/order.py",
        "lambda k: n_weights * betainc(k, n + 1 - k, level) <= bad",
        "lambda k: betainc(k, n + 1 - k, level) <= bad"),
    Bug("PAC rank that promises delta, not 1 - delta", "guarantees/order.py",
        "lambda k: n_weights * betainc(k, n + 1 - k, level) <= bad",
        "lambda k: n_weights * betainc(k, n + 1 - k, level) <= 1 - bad"),
    Bug("ecdf that overshoots its last knot", "normalize.py",
        "np.minimum(levels[left] + np.minimum(way, 1.0) * rise, levels[left + 1])",
        "levels[left] + way * rise"),
    # Roles: who had a part in what was learnt, and who in the calibration.
    Bug("ecdf of a shortlist learnt on all rows", "exact/fit.py",
        "transform = normalizer.fit(some_rows(scores, aside) if len(aside) else scores, columns)",
        "transform = normalizer.fit(scores, columns)"),
    Bug("shortlist chosen on all rows", "exact/fit.py",
        "        normalized = transform(some_rows(scores, aside))\n"
        "        k = tuning_rank(len(aside), alpha)\n"
        "        true_scores = of_labels(normalized, y[aside])\n",
        "        normalized = transform(scores)\n"
        "        k = tuning_rank(len(y), alpha)\n"
        "        true_scores = of_labels(normalized, y)\n"),
    Bug("automatic scores under exact calibrated on the blend's rows", "auto.py",
        "return Plan(ladder, blend, roles.calibrate, settings)",
        "return Plan(ladder, blend, settings=settings)"),
    Bug("fold model trained on its own fold", "cross/classifier.py",
        "own[name] = clone(estimator).fit(_safe_indexing(X, train), y[train])",
        "own[name] = clone(estimator).fit(X, y)"),
    Bug("groups of a classifier dropped between tuning and calibration", "classifier.py",
        "groups=None if parts is None or X_calibration is not None else parts[calibrate],",
        "groups=None,"),
    Bug("floor for ceil in the rank of a batch", "guarantees/order.py",
        "needed = math.ceil(m * share)", "needed = math.floor(m * share)"),
    Bug("own weight left out of the smoothing", "calibration/weighted.py",
        "tau * (at_least - above + own)", "tau * (at_least - above) + own"),
    Bug("second term of CV+ for folds of any size", "cross/folds.py",
        "    if len(set(sizes)) == 1:\n", "    if len(sizes) > 1:\n"),
    Bug("2 ln M for e ln M in the harmonic merge", "merge.py",
        "math.e * math.log(n)", "2.0 * math.log(n)"),
    Bug("null cluster that shares the last cluster", "calibration/clusters.py",
        "pool=int(cells.max(initial=-1)) + 1", "pool=max(int(cells.max(initial=-1)), 0)"),
    Bug("rare pairs of group and class by the wrong axis", "calibration/schemes.py",
        "own[rare] = other", 'own[rare.reshape(n_groups, width).ravel("F")] = other'),
    Bug("single precision normalised in place", "tuning.py",
        " and not is_tensor(scores) and scores.dtype == np.float64", " and not is_tensor(scores)"),
]  # fmt: skip
