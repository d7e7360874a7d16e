"""Loop nests of groups, their schedules, and the kernels that come of them."""
