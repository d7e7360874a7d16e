"""Cases of grids that ``make test`` leaves to ``make test-slow``, which runs those alone: they are marked ``slow``.

``GRIDS`` says of which tests ``make test`` runs a part of the cases, chosen by their names and so on all machines the
same; ``rarely`` marks a case where it stands, and ``pytest.mark.slow`` all of a test's. A case that is asked for
alone, by its name, runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any
from zlib import crc32

import pytest

#: Of tests, by file, one case in how many is run. Together they would take three quarters of an hour on two processors.
GRIDS: dict[str, dict[str, int]] = {
    "array_api/test_at.py": {"test_as_in_jax": 5, "test_gradients": 3, "test_outside_of_a_trace": 3},
    "array_api/test_special_values.py": {"test_of_two_numbers": 2, "test_of_a_complex_number": 2},
    "backends/test_cuda_compile.py": {"test_cubin": 2},
    "backends/test_rocm_compile.py": {"test_code_object": 3},
    "backends/test_threads.py": {"test_no_memory_is_an_error_and_the_process_goes_on": 3},
    "call/test_first_calls.py": {
        "test_an_interrupt_in_the_first_compilation_of_a_process": 3,
        "test_daemon_threads_compile_while_the_process_ends": 2,
        "test_nothing_is_compiled_when_the_modules_are_gone": 2,
    },
    "call/test_interrupted_starts.py": {"test_first_calls": 5},
    "examples/test_jax_programs.py": {"test_one_compile_serves_all_requests": 2},
    "gpu/test_devices_argument.py": {"test_arrays_are_made_there": 2, "test_arrays_like_others": 2},
    "gpu/test_donation.py": {
        "test_results_that_one_thread_stores": 4,
        "test_moments_and_weights_are_updated_where_they_are": 2,
        "test_memory_that_others_have_stays": 2,
    },
    "gpu/test_gpu_check.py": {"test_check": 8},
    "gpu/test_grid.py": {"test_forms_of_ops": 2},
    "gpu/test_jax.py": {"test_where_the_arguments_are": 2},
    "gpu/test_misuse.py": {"test_a_race": 3},
    "gpu/test_models.py": {"test_a_layer_in_halves": 4},
    "gpu/test_native_arguments.py": {
        "test_numbers": 2,
        "test_numpys_arrays": 4,
        "test_streams_of_calls_without_arrays_there": 2,
        "test_memory_that_others_have": 2,
        "test_more_calls_than_may_be_pending": 2,
        "test_threads": 2,
    },
    "gpu/test_programs.py": {
        "test_sizes_that_a_program_measures": 2,
        "test_loops_and_choices": 2,
        "test_products": 2,
        "test_elementwise_reductions_and_trees": 2,
        "test_libraries_and_callbacks_run_on_the_host": 2,
        "test_out_of_memory": 3,
    },
    "gpu/test_random_programs.py": {"test_programs_agree_with_the_reference": 2},
    "gpu/test_scatters.py": {"test_a_table_of_embeddings_learns": 2, "test_a_donated_array_is_updated": 2},
    "gpu/test_sorting.py": {
        "test_every_size_with_one_compile": 2,
        "test_a_comparator_of_any_kind_runs_in_kernels": 2,
        "test_greatest_elements": 2,
    },
    "gpu/test_torch.py": {
        "test_autocast_of_the_devices_kind": 2,
        "test_layouts_views_and_writes": 2,
        "test_functions_run_where_their_tensors_are": 2,
        "test_modules_and_their_parameters_by_reference": 2,
        "test_random_numbers_and_sizes_that_are_measured": 2,
        "test_functions_without_tensor_arguments": 2,
    },
    "gpu/test_torch_gradients.py": {"test_an_mlp": 2},
    "integers/test_gpu.py": {"test_ops": 4},
    "integers/test_x86.py": {"test_ops": 3},
    "integers/test_xla.py": {"test_elements": 3, "test_conversions": 3},
    "interop/test_custom_calls.py": {"test_routines_of_lapack": 4},
    "interop/test_harnesses.py": {"test_examples": 5},
    "interop/onnx/test_onnx_nodes.py": {"test_samples": 4},
    "interop/test_jax_call.py": {"test_as_in_jax_with_one_compile_for_all_sizes": 2},
    "interop/test_jax_jit.py": {
        "test_arrays_that_a_function_closes_over": 3,
        "test_reductions_of_no_elements_that_leave_nans_out": 3,
    },
    "interop/test_jax_jit_native.py": {"test_arrays": 3},
    "interop/test_jax_questions.py": {
        "test_each_way_to_ask": 3,
        "test_functions_of_jax_that_ask": 3,
        "test_each_place_to_ask": 3,
    },
    "interop/test_jax_runs_dyn.py": {"test_samples_run_in_jax": 5},
    "interop/test_jax_transforms.py": {"test_numbers_of_64_bits": 2, "test_one_program_of_one_trace": 4},
    "interop/test_jax_xla.py": {"test_jax_functions_compute_what_xla_does": 4, "test_xla_computes_what_dyn_does": 3},
    "interop/test_round_trips.py": {"test_samples_come_back": 4},
    "interop/test_spec.py": {"test_both_forms_are_one_program": 4, "test_what_the_specification_says": 3},
    "interop/test_versions.py": {"test_artifacts_of_each_version_are_read_again": 5},
    "interop/tf/test_tf_gradients.py": {
        "test_training_steps_are_one_program": 2,
        "test_sparse_gradients_and_mixed_precision": 3,
        "test_gradients_of_lookups_are_indexed_slices_as_in_tensorflow": 2,
    },
    "interop/tf/test_tf_keras.py": {"test_training_by_keras": 2},
    "interop/tf/test_tf_keras_building.py": {"test_fit_evaluate_and_predict": 2, "test_classes": 3},
    "interop/tf/test_tf_layers.py": {"test_layers": 2},
    "interop/tf/test_tf_models.py": {"test_applications": 4},
    "interop/tf/test_tf_operations.py": {"test_operations": 3},
    "interop/torch/test_backward_effects.py": {"test_what_python_does_in_a_pass": 2, "test_each_pass_writes": 2},
    "interop/torch/test_backwards.py": {
        "test_images_at_places": 4,
        "test_volumes_at_places": 2,
        "test_distances": 3,
        "test_bags": 3,
    },
    "interop/torch/test_crossing.py": {"test_the_less_is_kept_at_every_length": 3},
    "interop/torch/test_functions.py": {"test_as_pytorch_gives_it": 2},
    "interop/torch/test_gradients.py": {"test_modules": 2},
    "interop/torch/test_matrices.py": {"test_stacks_beside_single_matrices": 4, "test_gradients_of_determinants": 2},
    "interop/torch/test_networks.py": {"test_torch_compile": 9},
    "interop/torch/test_opinfo.py": {"test_samples": 6},
    "interop/torch/test_optimizers.py": {
        "test_steps_by_torch_compile_are_programs_for_all_parameters_and_learning_rates": 3
    },
    "interop/torch/test_recurrent.py": {
        "test_autocast": 4,
        "test_derivatives": 6,
        "test_a_net_at_every_length_is_one_program": 3,
    },
    "interop/torch/test_strides.py": {"test_results_lie_as_pytorchs_do": 2},
    "interop/torch/test_transformers.py": {
        "test_torch_compile": 4,
        "test_inference": 2,
        "test_training": 6,
        "test_gradient_checkpointing": 2,
        "test_decoding_with_a_cache": 3,
        "test_generate": 3,
    },
    "lax/test_raw.py": {"test_as_in_jax": 3, "test_random_bits_are_those_of_xla": 3},
    "lax/test_scans.py": {"test_running": 4, "test_a_tree_at_every_size": 3, "test_derivatives": 2},
    "lower/test_composites.py": {"test_compiled_samples": 3},
    "lower/test_gpu_programs.py": {"test_random_programs": 2},
    "lower/test_gpu_races.py": {"test_kernels_do_not_race": 8, "test_each_missing_barrier_is_a_race": 2},
    "lower/test_gpu_run.py": {"test_softmax": 5},
    "lower/test_gpu_samples.py": {"test_texts": 4},
    "lower/test_op_programs.py": {"test_samples": 3},
    "lower/test_op_samples.py": {"test_compiled_samples": 2},
    "lower/test_sorting.py": {"test_a_vector_of_every_dtype": 4, "test_rows_longer_than_a_block": 3},
    "lower/test_x86_kernels.py": {"test_against_numpy": 2},
    "lower/test_x86_math.py": {"test_bounds": 2},
    "lower/test_x86_samples.py": {"test_samples": 3},
    "lower/test_x86_squares.py": {"test_transposed": 4},
    "models/test_optimization.py": {"test_both_levels_agree_on_random_programs": 3},
    "nn/test_convolution.py": {"test_conv_transpose": 2},
    "nn/test_nn.py": {"test_softmax": 3, "test_activation": 3},
    "numpy/test_calculus.py": {"test_derivatives": 3},
    "numpy/test_functions.py": {"test_how_exact_of_two": 4},
    "numpy/test_indexing.py": {"test_slices": 2},
    "numpy/test_measured_shapes.py": {"test_like_numpy": 2},
    "numpy/test_reductions.py": {"test_arg_extremes": 3, "test_moments": 3, "test_extremes": 2},
    "numpy/test_sets.py": {"test_sizes_of_ones_own": 3},
    "ops/test_gamma_slope.py": {"test_against_jax": 2},
    "ops/test_ops.py": {"test_the_text_parses_back": 2, "test_the_type_of_undecided_shapes": 2},
    "ops/test_transform_rules.py": {"test_derivatives_agree": 3, "test_batching_is_a_loop": 3},
    "passes/test_passes.py": {"test_meaning_is_kept": 2},
    "random/test_against_jax.py": {
        "test_bits_and_uniform_floats": 3,
        "test_over_keys": 4,
        "test_permutations": 3,
        "test_continuous_distributions": 3,
        "test_integers": 3,
    },
    "random/test_derived.py": {"test_against_jax": 4},
    "random/test_matrices.py": {"test_multivariate_normal": 3, "test_orthogonal": 3},
    "schedule/test_bundles.py": {"test_each_set_is_computed_as_alone": 3},
    "schedule/test_choices.py": {"test_results_are_those_of_the_order_of_memory": 3},
    "schedule/test_contract_parts.py": {"test_contractions_in_parts": 4},
    "schedule/test_gpu_contractions.py": {
        "test_contractions": 10,
        "test_no_races": 4,
        "test_hip_with_warps_of_32_lanes": 4,
    },
    "schedule/test_gpu_scatter.py": {"test_scatters": 8},
    "schedule/test_gpu_sorting.py": {"test_sorts": 8, "test_no_races": 2},
    "schedule/test_gpu_tables.py": {"test_classes": 8},
    "schedule/test_launch_cache.py": {"test_what_is_known_is_what_would_be_made": 3},
    "schedule/test_ordered_reductions.py": {"test_samples_on_gpus": 3},
    "schedule/test_random_schedules.py": {"test_random_programs_on_gpus": 2},
    "specialize/test_captured_sizes.py": {"test_outside_of_jit_as_inside": 3},
    "specialize/test_deferred.py": {"test_the_end_of_the_process_while_a_variant_is_compiled": 2},
    "transforms/test_arrays_against_jax.py": {
        "test_gradients": 12,
        "test_batches": 12,
        "test_gradients_of_examples": 12,
        "test_tangents_are_the_transpose": 12,
    },
    "transforms/test_checkpoint.py": {"test_against_jax": 9, "test_the_derivatives_are_the_same": 2},
    "transforms/test_custom.py": {"test_rules_go_through_every_transformation": 4},
    "transforms/test_gradients.py": {"test_gradients_are_those_of_jax": 2},
    "transforms/test_linear_algebra.py": {
        "test_gradients_and_batches": 10,
        "test_second_derivatives": 4,
        "test_complex_gradients": 8,
        "test_gradients_by_no_elements": 3,
    },
    "transforms/test_second_derivatives.py": {"test_products_with_hessians": 4, "test_traps": 2},
    "transforms/test_special_points.py": {"test_of_one_array": 3},
}


def rarely(*values: Any) -> Any:
    """The values of a case that is slow."""
    return pytest.param(*values, marks=pytest.mark.slow)


def part(names: Iterable[str], count: int) -> set[str]:
    """One name in ``count``, rounded up."""
    in_order = sorted(names, key=lambda name: (crc32(name.encode()), name))
    return set(in_order[: -(-len(in_order) // count)])


def leave_out(items: Sequence[pytest.Item]) -> None:
    """Mark the cases of ``GRIDS`` that ``make test`` does not run."""
    grids: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("slow") is None:
            grids.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for test, cases in grids.items():
        file, _, function = test.removeprefix("tests/").partition("::")
        kept = part((case.nodeid for case in cases), GRIDS.get(file, {}).get(function, 1))
        for case in cases:
            if case.nodeid not in kept:
                case.add_marker(pytest.mark.slow)
