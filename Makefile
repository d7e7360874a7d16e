# The jobs of this repository; `make help` lists them. What they need is installed by scripts/bootstrap.py, once:
# a second run needs no network. `make test ARGS="tests/shapes -k affine"` hands ARGS on.

# A Python 3.11 or later to make .venv from; empty: looked for on the PATH.
PYTHON ?=
ARGS ?=
# The GPU of make test-gpu: cuda, rocm, cuda:1, …
DEVICE ?= cuda
# 1: a test whose compiler is missing fails; 0: it is skipped.
DYN_REQUIRE_TOOLCHAINS ?= 1

BIN := .venv/bin
SETUP := @python=$$(PYTHON="$(PYTHON)" sh scripts/find-python.sh) && "$$python" scripts/bootstrap.py

export DYN_REQUIRE_TOOLCHAINS

.PHONY: help demo train jax torch tensorflow test test-slow test-gpu gpu-check gpu-wheels tensorflow-operations tensorflow-applications test-gpu-grid docs docs-links wheel release random harnesses test-jax test-opinfo test-torch-mlir test-libraries test-versions bench golden clean

help:
	@echo 'make demo     serve BERT-base over a hundred shapes from one compile'
	@echo 'make train    train a small GPT on texts of all lengths from one compile, beside JAX'
	@echo 'make jax      run JAX programs over streams of shapes, by dyn and by jax.jit'
	@echo 'make tensorflow  run a Keras model over a stream of shapes, by dyn, tf.function and XLA'
	@echo 'make torch    run and train a Hugging Face model over a stream of shapes, by dyn, Inductor and PyTorch'
	@echo 'make test     ruff, pyright and all tests; those of TensorFlow in processes of their own'
	@echo 'make test-slow the tests that make test leaves out of its grids, and those that take minutes'
	@echo 'make docs     build the site of the documentation, in docs/_build; make docs-links looks at the links that lead out of it'
	@echo 'make test-gpu  run programs, and every op, on the GPU of this machine: DEVICE=cuda or rocm, cuda:1, …'
	@echo 'make gpu-check find out in minutes what dyn does on the GPU of this machine; make gpu-wheels puts what that takes elsewhere into .whl/'
	@echo 'make test-gpu-grid run every op and class of groups on the software GPUs at all sizes, for half an hour'
	@echo 'make wheel    build the wheel into dist/ and try it in empty environments; PYTHONS="python3.11 python3.13"'
	@echo 'make release  build the wheel and the sdist of this version into dist/, check and try both, and say what is left to do by hand'
	@echo 'make random   look for programs that are compiled wrongly, for some hours; goes on where it was ended'
	@echo 'make harnesses run all examples that JAX has of its primitives, and write docs/harnesses.md'
	@echo 'make test-jax JAX=PATH  run the own tests of a checkout of JAX by dyn.interop.jax.jit, and write docs/harnesses.md'
	@echo 'make test-opinfo run all samples that PyTorch has of its operators, and write docs/torch.md; goes on where it was ended'
	@echo 'make test-torch-mlir TORCH_MLIR=PATH  run the end-to-end cases of a checkout of torch-mlir, and write docs/torch.md'
	@echo 'make test-libraries run calls of SciPy, scikit-learn, array-api-extra, einops and xarray with arrays of dyn, and write docs/libraries.md'
	@echo 'make tensorflow-operations  each operation of TensorFlow that has a converter, in a program of its own'
	@echo 'make tensorflow-applications  four applications of Keras, whole, by inference and by fit, beside TensorFlow'
	@echo 'make test-versions  the tests of the front ends against other versions of JAX, PyTorch and TensorFlow, each in an environment of its own'
	@echo 'make bench    check and time dyn against PyTorch, JAX and ONNX Runtime on a stream of shapes'
	@echo 'make golden   run the tests and rewrite the golden files; review the diff'
	@echo 'make clean    remove .venv and everything generated'
	@echo
	@echo 'Each installs what it needs into .venv on its first run. Options:'
	@echo '  PYTHON=/path/to/python3.11     make .venv from this Python'
	@echo '  ARGS="..."                     arguments for the demo, the training, pytest or the benchmark'
	@echo '  VERSIONS="jax==0.9.2 torch==2.14.1" PYTHONS="python3.11 python3.13" ALL=1   what make test-versions runs'
	@echo '  DYN_REQUIRE_TOOLCHAINS=0       skip the tests whose compiler is missing, rather than fail'

demo:
	$(SETUP) demo
	$(BIN)/python examples/bert_stream.py $(ARGS)

train:
	$(SETUP) train
	$(BIN)/python examples/train_char_lm.py $(ARGS)

jax:
	$(SETUP) train
	$(BIN)/python examples/jax/stream.py $(ARGS)

tensorflow:
	$(SETUP) tensorflow
	$(BIN)/python examples/tensorflow_stream.py $(ARGS)

tensorflow-operations:
	$(SETUP) test
	$(BIN)/python -m tests.interop.tf.grid $(ARGS)

tensorflow-applications:
	$(SETUP) test
	$(BIN)/python -m tests.interop.tf.applications $(ARGS)

torch:
	$(SETUP) torch
	$(BIN)/python examples/torch_stream.py $(ARGS)

test:
	$(SETUP) test
	$(BIN)/ruff check --quiet .
	$(BIN)/ruff format --check --quiet .
	$(BIN)/pyright --project pyproject.toml --threads 2
	$(BIN)/python -m pytest -n auto --dist worksteal --ignore=tests/interop/tf $(ARGS)
	$(if $(ARGS),,$(BIN)/python -m pytest -n auto --dist worksteal tests/interop/tf)

# What `make test` leaves out of its grids (tests/rarely.py).
test-slow:
	$(SETUP) test
	$(BIN)/python -m pytest -n auto --dist worksteal -m slow $(ARGS)

docs:
	$(SETUP) docs
	@$(BIN)/python -m scripts.build_site $(ARGS)

# Both leave what they build in dist/. Without PYTHONS: those of 3.11 to 3.14 that are here, pyenv's too.
RELEASE := @python=$$(PYTHON="$(PYTHON)" sh scripts/find-python.sh) && "$$python" -m scripts.release

wheel:
	$(RELEASE) --wheel $(or $(PYTHONS),$(PYTHON))

release:
	$(RELEASE) $(or $(PYTHONS),$(PYTHON))

docs-links:
	$(SETUP) docs
	$(BIN)/sphinx-build -q -b linkcheck -D nb_execution_mode=off docs docs/_build/links $(ARGS)

# On a machine without such a device it says so, and fails.
test-gpu:
	$(SETUP) test
	$(BIN)/python -m pytest tests/gpu --device=$(DEVICE) -m "not bench" $(ARGS)
	$(BIN)/python -m tests.gpu.whole_grid --device=$(DEVICE) --jobs=8

# Nothing is installed for it: it runs with the Python that holds the machine's own PyTorch and JAX.
gpu-check:
	PYTHON="$(PYTHON)" sh scripts/gpu-check.sh --device=$(DEVICE) $(ARGS)

gpu-wheels:
	sh scripts/gpu-wheels.sh $(ARGS)

test-gpu-grid:
	$(SETUP) test
	$(BIN)/python -m tests.gpu.whole_grid $(ARGS)

random:
	$(SETUP) test
	DYN_OPTIMIZE=1 $(BIN)/python -m pytest -q --hypothesis-profile=thorough tests/models tests/stitch/test_random_programs.py $(ARGS)
	$(BIN)/python -m tests.adversary --state .hypothesis/adversary.jsonl

harnesses:
	$(SETUP) test
	$(BIN)/python -m tests.interop.harnesses --write $(ARGS)
	$(BIN)/python -m tests.interop.symbolic_harnesses --write $(ARGS)
	$(BIN)/python -m tests.coverage

# A checkout of github.com/jax-ml/jax, at the tag of the version that is installed; nothing of it is built.
test-jax:
	$(SETUP) test
	$(BIN)/python -m tests.interop.jax_own_tests --checkout "$(JAX)" --write $(ARGS)

test-opinfo:
	$(SETUP) test
	$(BIN)/python -m tests.interop.torch.opinfo --write $(ARGS)

# A checkout of github.com/llvm/torch-mlir, of which nothing is built; TorchVision, where it is installed, for six cases.
test-torch-mlir:
	$(SETUP) test
	$(BIN)/python -m tests.interop.torch.torch_mlir --checkout "$(TORCH_MLIR)" --write $(ARGS)

test-libraries:
	$(SETUP) libraries
	$(BIN)/python -m tests.libraries --write $(ARGS)

# The environments stay in .versions. Without VERSIONS: those that scripts/versions.py knows; with ALL=1 all their tests.
test-versions:
	@python=$$(PYTHON="$(PYTHON)" sh scripts/find-python.sh) && "$$python" scripts/versions.py \
		$(addprefix --python=,$(PYTHONS)) $(if $(ALL),--all) $(VERSIONS)

bench:
	$(SETUP) bench
	$(BIN)/python -m pytest -q -m bench tests/benchmarks
	$(BIN)/python -m benchmarks shape_stream --peers torch,jax,onnxruntime $(ARGS)

golden:
	$(SETUP) test
	$(BIN)/python -m pytest --update-golden $(ARGS)

clean:
	rm -rf .venv .versions .whl .pytest_cache .ruff_cache .hypothesis build dist out
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
