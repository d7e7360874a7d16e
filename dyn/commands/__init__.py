"""Commands of ``python -m dyn`` for StableHLO modules, a file each. Heavy imports are made when one runs."""
