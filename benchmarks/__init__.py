"""dyn's times beside other frameworks': ``python -m benchmarks shape_stream --peers torch,jax``.

A benchmark is a file in ``suites``, a program in some framework a file in ``peers``. Each peer runs in a process of its
own (``worker``), of which the suite asks one measurement at a time.
"""
