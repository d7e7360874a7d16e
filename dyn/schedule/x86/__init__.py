"""What x86 brings to schedules: tiles of contractions, and blocking for caches."""
