"""What ``python -m dyn`` does with StableHLO modules, a file a command. Heavy imports are made when one runs."""
