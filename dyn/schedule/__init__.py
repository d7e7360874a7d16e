"""What a group computes as a loop nest, how it is scheduled, and the kernel that comes of it."""
