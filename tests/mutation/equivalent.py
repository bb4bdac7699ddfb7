"""Mutants that change nothing a caller can see, each with its proof."""

from __future__ import annotations

PROOFS: dict[str, str] = {}
