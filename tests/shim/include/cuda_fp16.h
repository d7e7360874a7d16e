// Stands for the vendor's header when generated CUDA text is compiled for the CPU; shim.h has what it would declare.
