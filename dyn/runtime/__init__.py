"""The run-time system beside compiled code: thread pool, allocator, call entries, address space.

Most of it is native code, whose text is written here and compiled and loaded by ``dyn.backends``.
"""
