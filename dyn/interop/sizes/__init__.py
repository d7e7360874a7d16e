"""Sizes in a front end's hands: conditions on them, tensors of them, and what operations do with those while a program
is read.

A guest library computes with shapes by the operations that it has for numbers. Where all that goes in is known before
the program runs, dims among it, so is what comes out: it stays dims, and nothing of it is computed at a call.
"""
