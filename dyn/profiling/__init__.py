"""Profiles of compiled code: launches with their sizes, variants, threads and bytes; calls; compilations."""
