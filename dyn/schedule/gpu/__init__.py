"""Schedules of GPUs: CUDA and HIP."""
