"""DHLO: types, values, ops, functions; text in and out; verifier; passes and rewrite patterns."""
