"""Diagnosis of a program at some sizes: op by op, by passes, groups and variants, and as a smaller program."""
