"""Specialization: one function, many programs.

A function is specialized by abstract values (dtypes, ranks, structure) and static keys (``dyn.trace.static_keys``). Its
programs stand in one table (``table``), where guards tell those of one key apart; machine code is shared by all
programs of one structure (``code``). What differs from front end to front end is how a program is traced.
"""
