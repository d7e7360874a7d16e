"""Kernels as LLVM IR text for x86: ``emit.emit_kernel``. Pure: nothing here imports a compiler."""
