"""The host program as native code (LLVM IR): shape arithmetic, checks, memory, launches."""
